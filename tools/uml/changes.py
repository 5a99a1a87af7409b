#!/usr/bin/env python3
"""Changes the source of User Mode Linux for the lab.

    changes.py LINUX    the directory of the kernel's source

Random numbers are repeatable: if the environment variable UML_SEED is set, all random numbers are derived from it.
Programs read the clock without a system call, because each call would need two switches between processes of the host.
"""
import pathlib
import sys

HOST = "\treturn getrandom(buf, len, flags);\n"
# Returns the bytes of the random number generator splitmix64, one byte per step.
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
# Programs read the clock without a system call: whenever the kernel lets a program run, it writes the time to
# the end of the vDSO's page, from which the program reads it. The time does not advance while the program
# runs. Each write advances the time as much as a system call for the clock does. So a program that wakes up
# at a given time then reads a slightly later time.
READ_CLOCK = "__vdso_clock_gettime(clockid_t clock, struct __kernel_old_timespec *ts)\n{\n"
CLOCK_READ = """\
	struct __kernel_old_timespec *now;

	asm("lea 0(%%rip), %0" : "=r" (now));
	now = (void *)(((unsigned long)now | 4095) + 1 - 2 * sizeof(*now));
	if ((unsigned int)clock <= CLOCK_MONOTONIC && now->tv_sec) {
		*ts = now[clock];
		return 0;
	}
"""
PAGE = "static struct page **vdsop;\n"
PAGE_WRITTEN = """
void vdso_set_time(struct timespec64 *real, struct timespec64 *mono);
void vdso_set_time(struct timespec64 *real, struct timespec64 *mono)
{
	struct timespec64 *now = vdsop ? page_address(*vdsop) + PAGE_SIZE : NULL;

	if (now) {
		now[-2] = *real;
		now[-1] = *mono;
	}
}
"""
CLOCK = "static struct clocksource timer_clocksource = {\n"
TIME_WRITTEN = """\
void vdso_set_time(struct timespec64 *real, struct timespec64 *mono);
int vdso_new_time(void);
int vdso_new_time(void)
{
	static unsigned long long written;
	struct timespec64 real, mono;
	unsigned long flags;

	if (time_travel_mode != TT_MODE_INFCPU || time_travel_time == written)
		return 0;
	ktime_get_ts64(&mono);
	local_irq_save(flags);
	ktime_get_ts64(&mono);
	ktime_get_real_ts64(&real);
	vdso_set_time(&real, &mono);
	written = time_travel_time;
	local_irq_restore(flags);
	return 1;
}

"""
USER = "void userspace(struct uml_pt_regs *regs"
LOOP = "\twhile (1) {\n\t\tif (kill_userspace_mm[0])\n"
LOOP_WITH_TIME = "\twhile (1) {\n\t\twhile (vdso_new_time())\n\t\t\tinterrupt_end();\n\t\tif (kill_userspace_mm[0])\n"
INTERRUPT = "\tstruct pt_regs *regs = get_irq_regs();\n\tunsigned int new_count;\n"
CHANGES = [
    ("arch/um/os-Linux/util.c", HOST, SEEDED),
    # Use no entropy from interrupts, because the kernel of the host decides when a signal interrupts this
    # kernel.
    ("drivers/char/random.c", INTERRUPT, INTERRUPT + "\n\treturn;\n"),
    # Use no entropy from the command line, because it contains the directory of the run.
    ("drivers/char/random.c", "\t_mix_pool_bytes(command_line, strlen(command_line));\n", ""),
    ("arch/x86/um/vdso/um_vdso.c", READ_CLOCK, READ_CLOCK + CLOCK_READ),
    ("arch/x86/um/vdso/vma.c", PAGE, PAGE + PAGE_WRITTEN),
    ("arch/um/kernel/time.c", CLOCK, TIME_WRITTEN + CLOCK),
    ("arch/um/os-Linux/skas/process.c", USER, "int vdso_new_time(void);\n" + USER),
    ("arch/um/os-Linux/skas/process.c", LOOP, LOOP_WITH_TIME),
]
for file, old, new in CHANGES:
    path = pathlib.Path(sys.argv[1], file)
    text = path.read_text()
    if text.count(old) != 1:
        sys.exit(f"changes.py: {path} differs from Linux 6.1; adapt tools/uml/changes.py")
    path.write_text(text.replace(old, new))
