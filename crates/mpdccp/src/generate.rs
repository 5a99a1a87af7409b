//! `mpdccp generate` writes manual pages and shell completions, for packages.

mod config_man_page;

use clap_complete::Shell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Output directory; this command creates `man/`, `bash/`, `zsh/` and `fish/` in it.
    directory: PathBuf,
}

pub(crate) fn main(args: &Args, command: clap::Command) -> ExitCode {
    match write(&args.directory, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("mpdccp: cannot write to {}: {e}", args.directory.display());
            ExitCode::from(2)
        }
    }
}

fn write(directory: &Path, mut command: clap::Command) -> std::io::Result<()> {
    let name = command.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let directory = directory.join(shell.to_string());
        std::fs::create_dir_all(&directory)?;
        clap_complete::generate_to(shell, &mut command, &name, directory)?;
    }
    let directory = directory.join("man");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("mpdccp.toml.5"), config_man_page::page())?;
    clap_mangen::generate_to(command, directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn there_is_a_page_for_each_command_and_completions_for_each_shell() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), crate::Cli::command()).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(read("man/mpdccp-tunnel-up.1").contains("log\\-format"));
        assert!(read("man/mpdccp.1").contains("mpdccp"));
        assert!(read("man/mpdccp.toml.5").contains("allowed_ips"));
        assert!(read("bash/mpdccp.bash").contains("tunnel") && read("fish/mpdccp.fish").contains("tunnel"));
        assert!(read("zsh/_mpdccp").contains("tunnel"));
    }
}
