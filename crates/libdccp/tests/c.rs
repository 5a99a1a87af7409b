//! Tests the library from C: the header, the exported symbols, the installed files, the examples, and invalid
//! calls.

use dccp_sockets::{Named, ReorderKind, SchedulerKind};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Installs the library that cargo has built for this test. Returns the installation directory.
fn installed() -> &'static Path {
    static PREFIX: OnceLock<tempfile::TempDir> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let built = built();
        let run = Command::new(format!("{HERE}/install"))
            .args(["--prefix".as_ref(), dir.path(), "--built".as_ref(), built.as_path()])
            .status();
        assert!(run.unwrap().success());
        dir
    });
    prefix.path()
}

fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn have(tool: &str) -> bool {
    Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn output(command: &mut Command) -> String {
    let out = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}: {}\n{stdout}{stderr}", out.status);
    stdout.into_owned()
}

/// Compiles a program against the installed files, using the flags from pkg-config if it is available.
fn compile(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let prefix = installed();
    let program = prefix.join(name);
    let lib = prefix.join("lib");
    let told = match have("pkg-config") {
        true => output(
            Command::new("pkg-config")
                .args(["--cflags", "--libs", "dccp"])
                .env("PKG_CONFIG_PATH", lib.join("pkgconfig")),
        ),
        false => format!("-I{0}/include -L{0}/lib -ldccp", prefix.display()),
    };
    output(
        Command::new("cc")
            .args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .arg(&program)
            .arg(Path::new(HERE).join(source))
            .args(flags)
            .args(told.split_whitespace())
            .arg(format!("-Wl,-rpath,{}", lib.display())),
    );
    program
}

#[test]
fn the_examples_of_the_page_compile() {
    let page = fs::read_to_string(format!("{HERE}/../../docs/c.md")).unwrap();
    // In a code block's header, the language may be followed by a mark for scripts/guides.
    let blocks = page.split("\n```c").filter_map(|rest| rest.split("```").next()?.split_once('\n'));
    let mut blocks =
        blocks.filter(|(mark, _)| mark.is_empty() || mark.starts_with(' ')).map(|(_, code)| code);
    let beginning = blocks.next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("example.c");
    for block in blocks {
        fs::write(&source, format!("{beginning}{block}")).unwrap();
        output(
            Command::new("cc")
                .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only"])
                .args(["-I", HERE])
                .arg(&source),
        );
    }
}

/// A server running in the background, killed when its test ends.
struct Server(Child, String);

impl Server {
    fn start(program: &Path, args: &[&str]) -> Server {
        let mut child = Command::new(program).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Server(child, address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compares a generated file with the one in the repository or, if UPDATE is set, writes it instead.
fn current(name: &str, text: &str) {
    let file = Path::new(HERE).join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, text).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    assert!(there == text, "{name} is not current: UPDATE=1 cargo test -p libdccp writes it");
}

#[test]
fn the_header_is_that_of_the_source() {
    let config = cbindgen::Config::from_file(format!("{HERE}/cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(HERE).with_config(config).generate().unwrap();
    let mut header = Vec::new();
    bindings.write(&mut header);
    current("dccp.h", &String::from_utf8(header).unwrap());
}

#[test]
fn the_exported_symbols_are_those_of_the_list() {
    if !have("nm") {
        eprintln!("SKIPPED the exported symbols: nm is missing");
        return;
    }
    let told = output(Command::new("nm").args(["-D", "--defined-only"]).arg(built().join("libdccp.so")));
    let mut names: Vec<_> = told.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    names.sort_unstable();
    current("symbols", &(names.join("\n") + "\n"));
    let dynamic = output(Command::new("objdump").arg("-p").arg(built().join("libdccp.so")));
    let soname = dynamic.lines().find_map(|line| line.trim().strip_prefix("SONAME"));
    assert_eq!(soname.map(str::trim), Some("libdccp.so.0"));
    let header = fs::read_to_string(format!("{HERE}/dccp.h")).unwrap();
    for name in names {
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
}

#[test]
fn the_header_names_every_scheduler_and_reorderer() {
    let header = fs::read_to_string(Path::new(HERE).join("dccp.h")).unwrap();
    let names = SchedulerKind::all().map(Named::name).chain(ReorderKind::all().map(Named::name));
    for name in names {
        assert!(header.contains(&format!("\"{name}\"")), "{name} is not in the header");
    }
}

/// Checks that misuse.c calls every function of the header in a way that must fail.
#[test]
fn each_function_of_the_header_is_misused() {
    let [header, symbols, misuse] = ["dccp.h", "symbols", "tests/c/misuse.c"]
        .map(|name| fs::read_to_string(Path::new(HERE).join(name)).unwrap());
    let declarations =
        header.lines().filter(|line| line.ends_with([',', ';']) && !line.trim_start().starts_with('*'));
    let declared: Vec<(&str, &str)> = declarations
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, args)| Some((before.rsplit([' ', '*']).next()?, args)))
        .collect();
    let mut names: Vec<&str> = declared.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(names, symbols.lines().collect::<Vec<_>>());
    let is_misused = |line: &str, (name, args): (&str, &str)| match args {
        "void);" => line.contains(&format!("{name}()")),
        _ => {
            line.contains(&format!(", {name}(h"))
                || line.contains(&format!("({name}(")) && line.contains("), -E")
        }
    };
    let missing = declared.iter().filter(|function| !misuse.lines().any(|line| is_misused(line, **function)));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "misuse.c has no failing call of {missing:?}; add one");
}

#[test]
fn misuse_is_an_error() {
    let program = compile("tests/c/misuse.c", "misuse", &[]);
    output(&mut Command::new(program));
}

#[test]
fn misuse_is_an_error_under_the_address_sanitizer() {
    let probe = Command::new("cc")
        .args(["-fsanitize=address", "-xc", "-", "-o", "/dev/null"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // The compiler always fails here because an empty program has no main function, so check only whether it
    // has the sanitizer's library.
    let found = output(Command::new("cc").arg("-print-file-name=libasan.so")).trim().contains('/');
    if probe.is_err() || !found {
        eprintln!("SKIPPED the address sanitizer: cc has none");
        return;
    }
    let program = compile("tests/c/misuse.c", "misuse-asan", &["-fsanitize=address,undefined"]);
    // The process exits while connections are still closing in the background; the memory they hold is not a
    // leak.
    output(Command::new(program).env("ASAN_OPTIONS", "detect_leaks=0"));
}

#[test]
fn misuse_is_an_error_under_valgrind() {
    if !have("valgrind") {
        eprintln!("SKIPPED valgrind: it is not installed");
        return;
    }
    let program = compile("tests/c/misuse.c", "misuse-valgrind", &[]);
    output(Command::new("valgrind").args(["--quiet", "--error-exitcode=9"]).arg(program));
}

#[test]
fn the_echo_answers() {
    let echo = compile("examples/echo.c", "echo", &[]);
    let server = Server::start(&echo, &["server", "127.0.0.1:0"]);
    for text in ["hello", "again"] {
        let answer = output(Command::new(&echo).args(["client", &server.1, text]));
        assert_eq!(answer.trim(), text);
    }
    let wrong = Command::new(&echo).stderr(Stdio::null()).status().unwrap();
    assert_eq!(wrong.code(), Some(2));
}

#[test]
fn the_echo_with_epoll_answers_several_at_once() {
    let echo = compile("examples/echo.c", "echo-client", &[]);
    let server = Server::start(&compile("examples/epoll_echo.c", "epoll_echo", &[]), &["127.0.0.1:0"]);
    let texts: Vec<_> = (0..5).map(|n| format!("client {n}")).collect();
    std::thread::scope(|scope| {
        for text in &texts {
            let (echo, server) = (&echo, &server.1);
            scope.spawn(move || {
                let answer = output(Command::new(echo).args(["client", server, text]));
                assert_eq!(answer.trim(), text);
            });
        }
    });
}

#[test]
fn two_paths_carry_what_is_sent() {
    let server = Server::start(&compile("examples/echo.c", "echo-server", &[]), &["server", "127.0.0.1:0"]);
    let client = compile("examples/two_paths.c", "two_paths", &[]);
    let told = output(Command::new(client).args([server.1.as_str(), "127.0.0.1", "127.0.0.2"]));
    let up = told.lines().filter(|line| line.ends_with("is up")).count();
    let packets =
        told.lines().filter_map(|line| line.split(": ").nth(1)?.split(' ').next()?.parse::<u64>().ok());
    assert_eq!((up, packets.count()), (2, 2), "{told}");
}

#[test]
fn a_file_arrives_whole_over_a_stream() {
    let file = compile("examples/file.c", "file", &[]);
    let (original, copy) = (installed().join("original.bin"), installed().join("copy.bin"));
    fs::write(&original, (0..3_000_000u32).map(|n| (n >> 4) as u8).collect::<Vec<_>>()).unwrap();
    let mut server = Server::start(&file, &["receive", "127.0.0.1:0", copy.to_str().unwrap()]);
    let from = original.to_str().unwrap();
    output(Command::new(&file).args(["send", &server.1, from, "127.0.0.1", "127.0.0.2"]));
    assert!(server.0.wait().unwrap().success());
    assert!(fs::read(&original).unwrap() == fs::read(&copy).unwrap());
}

/// Programs that run their own event loop talk to each other, and to programs that use the library's threads.
#[test]
fn a_loop_of_ones_own_speaks_to_all() {
    let (own, echo) =
        (compile("examples/own_loop.c", "own_loop", &[]), compile("examples/echo.c", "echo-own", &[]));
    let (mine, theirs) =
        (Server::start(&own, &["listen", "0"]), Server::start(&echo, &["server", "127.0.0.1:0"]));
    for server in [&mine, &theirs] {
        let (ip, port) = server.1.rsplit_once(':').unwrap();
        assert_eq!(output(Command::new(&own).args(["connect", ip, port, "sans IO"])).trim(), "sans IO");
    }
    assert_eq!(output(Command::new(&echo).args(["client", &mine.1, "threads"])).trim(), "threads");
}

#[test]
fn the_static_library_is_enough() {
    let lib = installed().join("lib/libdccp.a");
    let system = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];
    let flags = [&["-Wl,--as-needed", lib.to_str().unwrap()], &system[..]].concat();
    let program = compile("examples/echo.c", "echo-static", &flags);
    let needs = output(Command::new("ldd").arg(&program));
    assert!(!needs.contains("libdccp"), "{needs}");
    let server = Server::start(&program, &["server", "127.0.0.1:0"]);
    assert_eq!(output(Command::new(&program).args(["client", &server.1, "static"])).trim(), "static");
}

#[test]
fn the_header_is_cpp_too() {
    if !have("c++") {
        eprintln!("SKIPPED the header in C++: c++ is not installed");
        return;
    }
    let file = installed().join("cpp.cc");
    fs::write(&file, "#include <dccp.h>\nint main() { return dccp_version() == nullptr; }\n").unwrap();
    output(
        Command::new("c++")
            .args(["-Wall", "-Werror", "-fsyntax-only", "-I"])
            .arg(installed().join("include"))
            .arg(file),
    );
}
