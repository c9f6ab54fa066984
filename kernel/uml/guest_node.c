// SPDX-License-Identifier: GPL-2.0
/*
 * The nodes of a run are network namespaces. What would be a program's start
 * for each (nsenter, sysctl, ethtool, tc) is a system call or two here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/gen_stats.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"

/* The features that can be switched, by the names ethtool has for them. */
static const struct offload {
	const char *feature;
	uint32_t get, set;
} offloads[] = {
	{ "tcp-segmentation-offload", ETHTOOL_GTSO, ETHTOOL_STSO },
	{ "generic-segmentation-offload", ETHTOOL_GGSO, ETHTOOL_SGSO },
	{ "generic-receive-offload", ETHTOOL_GGRO, ETHTOOL_SGRO },
	{ "scatter-gather", ETHTOOL_GSG, ETHTOOL_SSG },
	{ NULL, 0, 0 },
};

/* Enter the namespace of a node; "-" is the one everything began in. */
void enter_node(const char *node)
{
	static char current[64] = "-";
	static int own = -1;
	char path[96];
	int fd;

	if (own < 0)
		own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (!strcmp(node, current))
		return;
	snprintf(path, sizeof(path), "/run/netns/%s", node);
	fd = strcmp(node, "-") ? open(path, O_RDONLY | O_CLOEXEC) : own;
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail("cannot enter node %s: %s", node, strerror(errno));
	if (fd != own)
		close(fd);
	snprintf(current, sizeof(current), "%s", node);
}

static int open_sysctl(const char *key, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/%s", key);
	for (char *c = path + strlen("/proc/sys/"); *c; c++)
		if (*c == '.')
			*c = '/';
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		fail("no kernel parameter %s: %s", key, strerror(errno));
	return fd;
}

void write_sysctl(const char *key, const char *value)
{
	int fd = open_sysctl(key, O_WRONLY);

	if (write(fd, value, strlen(value)) < 0)
		fail("%s does not take '%s': %s", key, value, strerror(errno));
	close(fd);
}

/* Print "key = value" as sysctl does, several values separated by spaces. */
void print_sysctl(FILE *to, const char *key)
{
	char value[512];
	int fd = open_sysctl(key, O_RDONLY);
	ssize_t n = read(fd, value, sizeof(value) - 1);

	close(fd);
	if (n < 0)
		fail("cannot read %s: %s", key, strerror(errno));
	value[n] = 0;
	value[strcspn(value, "\n")] = 0;
	for (char *c = value; *c; c++)
		if (*c == '\t')
			*c = ' ';
	fprintf(to, "%s = %s\n", key, value);
}

static uint32_t ethtool(int fd, const char *device, uint32_t command, uint32_t value)
{
	struct ethtool_value request = { .cmd = command, .data = value };
	struct ifreq ifr = { .ifr_data = (char *)&request };

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", device);
	if (ioctl(fd, SIOCETHTOOL, &ifr))
		fail("%s: the driver refuses an offload setting: %s", device,
		     strerror(errno));
	return request.data;
}

/* Switch features, then print what the driver says of each, as ethtool -k. */
void switch_offloads(const char *device, bool on, char **features, FILE *to)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("socket: %s", strerror(errno));
	fprintf(to, "Features for %s:\n", device);
	for (; *features; features++) {
		const struct offload *o = offloads;

		while (o->feature && strcmp(o->feature, *features))
			o++;
		if (!o->feature)
			fail("offload '%s' is not known", *features);
		ethtool(fd, device, o->set, on);
		fprintf(to, "%s: %s\n", o->feature,
			ethtool(fd, device, o->get, 0) ? "on" : "off");
	}
	close(fd);
}

static struct rtattr *attribute(struct rtattr *at, int left, int wanted)
{
	for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
		if ((at->rta_type & NLA_TYPE_MASK) == wanted)
			return at;
	return NULL;
}

/* Packets in a queue, as `tc -s qdisc show` has them behind "backlog". */
static uint32_t packets_in(struct nlmsghdr *message)
{
	struct tcmsg *qdisc = NLMSG_DATA(message);
	struct rtattr *stats = attribute(TCA_RTA(qdisc), (int)TCA_PAYLOAD(message), TCA_STATS2);
	struct gnet_stats_queue queue = { 0 };
	struct rtattr *at;

	if (!stats)
		return 0;
	at = attribute(RTA_DATA(stats), (int)RTA_PAYLOAD(stats), TCA_STATS_QUEUE);
	if (at)
		memcpy(&queue, RTA_DATA(at),
		       RTA_PAYLOAD(at) < sizeof(queue) ? RTA_PAYLOAD(at) : sizeof(queue));
	return queue.qlen;
}

/* Add up the packets in all queues of a device. */
uint32_t packets_queued(const char *device)
{
	struct {
		struct nlmsghdr head;
		struct tcmsg body;
	} request = {
		.head = {
			.nlmsg_len = sizeof(request),
			.nlmsg_type = RTM_GETQDISC,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
	};
	int index = (int)if_nametoindex(device), left;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	static _Alignas(struct nlmsghdr) char answer[65536];
	struct nlmsghdr *message;
	uint32_t packets = 0;

	if (!index || fd < 0 || send(fd, &request, sizeof(request), 0) < 0)
		fail("cannot ask for the queues of %s: %s", device, strerror(errno));
	for (;;) {
		left = (int)recv(fd, answer, sizeof(answer), 0);
		if (left <= 0)
			fail("no answer on the queues of %s: %s", device, strerror(errno));
		for (message = (void *)answer; NLMSG_OK(message, left);
		     message = NLMSG_NEXT(message, left)) {
			if (message->nlmsg_type == NLMSG_DONE) {
				close(fd);
				return packets;
			}
			if (message->nlmsg_type != RTM_NEWQDISC)
				fail("the kernel refuses to show the queues of %s", device);
			if (((struct tcmsg *)NLMSG_DATA(message))->tcm_ifindex == index)
				packets += packets_in(message);
		}
	}
}
