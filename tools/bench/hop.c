// SPDX-License-Identifier: GPL-2.0
/*
 * One kind of work, COUNT times, for bench_hop.py:
 *
 *   hop send COUNT ADDRESS   a UDP packet of 1000 bytes, 64 to a system call
 *   hop call COUNT           a system call that does nothing
 *   hop wake COUNT           a sleep of a microsecond
 *   hop start COUNT FILE     a program, to its end
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64

static void send_packets(long count, const char *address)
{
	static char payload[972];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct iovec data = { payload, sizeof(payload) };
	struct mmsghdr messages[BATCH];
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
		errx(1, "no address: %s", address);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		err(1, "connect");
	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		messages[i].msg_hdr.msg_iov = &data;
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	for (long sent = 0; sent < count; sent += BATCH)
		if (sendmmsg(fd, messages, BATCH, 0) != BATCH)
			err(1, "sendmmsg");
}

static void start(char *file)
{
	pid_t child = vfork();
	int status;

	if (!child) {
		execl(file, file, NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		errx(1, "%s has failed", file);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 2 ? argv[1] : "";
	long count = argc > 2 ? atol(argv[2]) : 0;
	const struct timespec nap = { 0, 1000 };

	if (!strcmp(kind, "send") && argc == 4)
		send_packets(count, argv[3]);
	else if (!strcmp(kind, "call"))
		while (count--)
			syscall(SYS_getppid);
	else if (!strcmp(kind, "wake") && !prctl(PR_SET_TIMERSLACK, 1))
		while (count--)
			nanosleep(&nap, NULL);
	else if (!strcmp(kind, "start") && argc == 4)
		while (count--)
			start(argv[3]);
	else
		errx(2, "usage: hop send|call|wake|start COUNT [ADDRESS|FILE]");
	return 0;
}
