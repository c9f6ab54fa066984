// SPDX-License-Identifier: GPL-2.0
/* The link type csma in ip: its words. */
#include <uapi/csma.h>

#include "iproute2.h"
#include "words.h"

/* tc has these, ip has not; no word of csma leads to them. */
#pragma weak get_rate64
#pragma weak get_size
#pragma weak tc_print_rate

static const struct word csma_words[] = {
	{ "rate", CSMA_RATE, WORD_MBIT, NULL, "10mbit or 100mbit" },
	{ "propagation", CSMA_PROPAGATION, WORD_TIME_NS, NULL, NULL },
	{ "ring", CSMA_RING, WORD_U32, NULL, "a number of frames, from 1 to 4096" },
	{ "seed", CSMA_SEED, WORD_U64, NULL, NULL },
	{ NULL, 0, 0, NULL, NULL }
};

static const struct word *const words[] = { csma_words, NULL };

static void csma_usage(void)
{
	fprintf(stderr,
		"Usage: ip link add NAME type csma [ rate { 10mbit | 100mbit } ] [ propagation TIME ]\n"
		"               [ ring FRAMES ] [ seed NUMBER ]\n"
		"       ip link add link STATION name NAME type csma [ ring FRAMES ]\n"
		"\n"
		"The first makes a half-duplex wire, the second joins that of STATION.\n");
}

static int csma_parse(struct link_util *lu, int argc, char **argv, struct nlmsghdr *n)
{
	return add_words(n, words, lu->id, csma_usage, argc, argv);
}

static void csma_print(struct link_util *lu, FILE *f, struct rtattr *tb[])
{
	(void)lu;
	(void)f;
	if (tb)
		print_words(words, tb);
}

static void csma_print_xstats(struct link_util *lu, FILE *f, struct rtattr *xstats)
{
	struct csma_xstats stats;

	(void)lu;
	(void)f;
	if (!xstats || RTA_PAYLOAD(xstats) < sizeof(stats))
		return;
	memcpy(&stats, RTA_DATA(xstats), sizeof(stats));
	print_nl();
	print_u64(PRINT_ANY, "collisions", "    collisions %llu", stats.collisions);
	print_u64(PRINT_ANY, "deferred", " deferred %llu", stats.deferred);
	print_u64(PRINT_ANY, "excessive", " excessive %llu", stats.excessive);
	print_u64(PRINT_ANY, "busy", " busy %lluns", stats.busy);
	print_u64(PRINT_ANY, "contention", " contention %lluns", stats.contention);
	print_u64(PRINT_ANY, "idle", " idle %lluns", stats.idle);
}

static void csma_help(struct link_util *lu, int argc, char **argv, FILE *f)
{
	(void)lu;
	(void)argc;
	(void)argv;
	(void)f;
	csma_usage();
}

struct link_util csma_link_util = {
	.id = "csma",
	.maxattr = CSMA_MAX,
	.parse_opt = csma_parse,
	.print_opt = csma_print,
	.print_xstats = csma_print_xstats,
	.print_help = csma_help,
};
