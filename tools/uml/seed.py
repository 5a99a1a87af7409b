#!/usr/bin/env python3
"""Makes the random numbers of User Mode Linux repeatable: if the variable UML_SEED is set, all are derived from it.

    seed.py LINUX    the directory of the kernel's source
"""
import pathlib
import sys

HOST = "\treturn getrandom(buf, len, flags);\n"
# splitmix64, one byte per step.
SEEDED = """\
	static unsigned long long state;
	const char *seed = getenv("UML_SEED");

	if (!seed)
		return getrandom(buf, len, flags);
	if (!state)
		state = strtoull(seed, NULL, 10);
	for (size_t i = 0; i < len; i++) {
		unsigned long long z = state += 0x9e3779b97f4a7c15ULL;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		((unsigned char *)buf)[i] = (z ^ (z >> 31)) >> 56;
	}
	return len;
"""
INTERRUPT = "\tstruct pt_regs *regs = get_irq_regs();\n\tunsigned int new_count;\n"
CHANGES = [
    ("arch/um/os-Linux/util.c", HOST, SEEDED),
    # No entropy from interrupts, because the host decides where a signal interrupts the kernel.
    ("drivers/char/random.c", INTERRUPT, INTERRUPT + "\n\treturn;\n"),
    # No entropy from the command line, because it contains the directory of the run.
    ("drivers/char/random.c", "\t_mix_pool_bytes(command_line, strlen(command_line));\n", ""),
]
for file, old, new in CHANGES:
    path = pathlib.Path(sys.argv[1], file)
    text = path.read_text()
    if text.count(old) != 1:
        sys.exit(f"seed.py: {path} differs from Linux 6.1; adapt tools/uml/seed.py")
    path.write_text(text.replace(old, new))
