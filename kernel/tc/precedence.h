/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the qdiscs rio and frio have in common on the command line and in what is shown: a kind is a
 * table of words (words.h) and a function for its own statistics.
 */
#ifndef TC_PRECEDENCE_H
#define TC_PRECEDENCE_H

#include <uapi/precedence.h>

#include "iproute2.h"
#include "words.h"

/* Rows of the table of words; a kind's own come between the two. */
#define PRECEDENCE_WORDS_FIRST								\
	{ "limit", TCA_PRECEDENCE_LIMIT, WORD_SIZE, NULL, NULL },			\
	{ "in_min", TCA_PRECEDENCE_IN_MIN, WORD_SIZE, NULL, NULL },			\
	{ "in_max", TCA_PRECEDENCE_IN_MAX, WORD_SIZE, NULL, NULL },			\
	{ "in_probability", TCA_PRECEDENCE_IN_PROBABILITY, WORD_PROBABILITY, NULL, NULL }, \
	{ "out_min", TCA_PRECEDENCE_OUT_MIN, WORD_SIZE, NULL, NULL },			\
	{ "out_max", TCA_PRECEDENCE_OUT_MAX, WORD_SIZE, NULL, NULL },			\
	{ "out_probability", TCA_PRECEDENCE_OUT_PROBABILITY, WORD_PROBABILITY, NULL, NULL }

#define PRECEDENCE_WORDS_LAST(avpkt_allowed)						\
	{ "ewma", TCA_PRECEDENCE_EWMA, WORD_U8, NULL, "a number from 0 to 31" },	\
	{ "avpkt", TCA_PRECEDENCE_AVPKT, WORD_SIZE, NULL, avpkt_allowed },		\
	{ "bandwidth", TCA_PRECEDENCE_BANDWIDTH, WORD_RATE, NULL, NULL },		\
	{ "in", TCA_PRECEDENCE_IN, WORD_DSCP, NULL, NULL },				\
	{ "seed", TCA_PRECEDENCE_SEED, WORD_U64, NULL, NULL },				\
	{ NULL, 0, 0, NULL, NULL }

#define PRECEDENCE_USAGE								\
	"The average has a weight of 2^-LOG; LOG 0 makes it the backlog itself.\n"	\
	"Packets with the codepoint DSCP (af11) are IN, all others OUT.\n"		\
	"To change a queue, give only what changes.\n"

static inline int precedence_parse(struct qdisc_util *qu, int argc, char **argv,
				   struct nlmsghdr *n, const struct word *words,
				   void (*usage)(void))
{
	struct rtattr *options = addattr_nest(n, MAX_MSG, TCA_OPTIONS | NLA_F_NESTED);

	if (add_words(n, words, qu->id, usage, argc, argv))
		return -1;
	addattr_nest_end(n, options);
	return 0;
}

/* Packets under the name, bytes under name_bytes. */
#define precedence_print_count(x, name)							\
	do {										\
		print_u64(PRINT_ANY, #name, #name " %llu ", (x)->name.packets);		\
		print_u64(PRINT_ANY, #name "_bytes", "(%llub) ", (x)->name.bytes);	\
	} while (0)

static inline void precedence_open_class(const char *name)
{
	open_json_object(name);
	print_nl();
	print_string(PRINT_FP, NULL, "  %s: ", name);
}

/* The plugin of a qdisc, from its table `words`, name_usage and name_print_statistics. */
#define PRECEDENCE_UTIL(name, attr_max)							\
static int name##_parse(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n, \
			const char *dev)						\
{											\
	(void)dev;									\
	return precedence_parse(qu, argc, argv, n, words, name##_usage);		\
}											\
											\
static int name##_print(struct qdisc_util *qu, FILE *f, struct rtattr *options)		\
{											\
	struct rtattr *tb[(attr_max) + 1];						\
											\
	(void)qu;									\
	(void)f;									\
	if (!options)									\
		return 0;								\
	parse_rtattr_nested(tb, attr_max, options);					\
	print_words(words, tb);								\
	return 0;									\
}											\
											\
static int name##_print_xstats(struct qdisc_util *qu, FILE *f, struct rtattr *xstats)	\
{											\
	struct tc_##name##_xstats x;							\
											\
	(void)qu;									\
	(void)f;									\
	if (!xstats)									\
		return 0;								\
	if (RTA_PAYLOAD(xstats) < sizeof(x))						\
		return -1;								\
	memcpy(&x, RTA_DATA(xstats), sizeof(x));					\
	name##_print_statistics(&x);							\
	return 0;									\
}											\
											\
struct qdisc_util name##_qdisc_util = {							\
	.id = #name,									\
	.parse_qopt = name##_parse,							\
	.print_qopt = name##_print,							\
	.print_xstats = name##_print_xstats,						\
}

#endif /* TC_PRECEDENCE_H */
