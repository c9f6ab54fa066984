// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel modules of a run. The plan orders them, so that no dependencies have
 * to be looked up, and the guest needs neither modprobe nor its database.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"

#define MODULES		RUN_BIN "/modules"
#define PLUGINS		RUN_BIN "/tc"

enum { KLOG_READ_ALL = 3, KLOG_CLEAR = 5 };

/* What the kernel has said since the log was cleared, on one line. */
static const char *kernel_said(void)
{
	static char log[4096], said[2 * sizeof(log)];
	int n = klogctl(KLOG_READ_ALL, log, sizeof(log) - 1);
	char *rest = log, *line;

	log[n > 0 ? n : 0] = 0;
	while ((line = strsep(&rest, "\n"))) {
		char *text = strstr(line, "] ");	/* behind <level>[time] */

		if (!*line)
			continue;
		strcat(strcat(said, *said ? "; " : ""), text ? text + 2 : line);
	}
	return said;
}

/* As modprobe does, take a module that is there for loaded. */
void load_module(const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), MODULES "/%s.ko", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail("no module %s has been built: %s", name, strerror(errno));
	klogctl(KLOG_CLEAR, NULL, 0);
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST) {
		int error = errno;

		fail("the kernel refuses module %s: %s; it says: %s", name,
		     strerror(error), kernel_said());
	}
	close(fd);
}

/* Where tc looks for what it does not know itself. */
const char *plugin_directory(void)
{
	struct stat st;

	return stat(PLUGINS, &st) ? NULL : PLUGINS;
}
