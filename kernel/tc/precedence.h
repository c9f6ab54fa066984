/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the qdiscs rio and frio have in common on the command line and in what is shown: a kind is
 * tables of words (words.h) and a function for its own statistics.
 */
#ifndef TC_PRECEDENCE_H
#define TC_PRECEDENCE_H

#include <uapi/precedence.h>

#include "iproute2.h"
#include "words.h"

#define PRECEDENCE_ATTRIBUTES 24	/* more than any kind has */

/* Tables of words; a kind's own comes between the two, with ewma and avpkt as its last. */
static const struct word precedence_first[] = {
	{ "limit", TCA_PRECEDENCE_LIMIT, WORD_SIZE, NULL, NULL },
	{ "in_min", TCA_PRECEDENCE_IN_MIN, WORD_SIZE, NULL, NULL },
	{ "in_max", TCA_PRECEDENCE_IN_MAX, WORD_SIZE, NULL, NULL },
	{ "in_probability", TCA_PRECEDENCE_IN_PROBABILITY, WORD_PROBABILITY, NULL, NULL },
	{ "out_min", TCA_PRECEDENCE_OUT_MIN, WORD_SIZE, NULL, NULL },
	{ "out_max", TCA_PRECEDENCE_OUT_MAX, WORD_SIZE, NULL, NULL },
	{ "out_probability", TCA_PRECEDENCE_OUT_PROBABILITY, WORD_PROBABILITY, NULL, NULL },
	{ NULL, 0, 0, NULL, NULL }
};

static const struct word precedence_last[] = {
	{ "bandwidth", TCA_PRECEDENCE_BANDWIDTH, WORD_RATE, NULL, NULL },
	{ "in", TCA_PRECEDENCE_IN, WORD_DSCP, NULL, NULL },
	{ "seed", TCA_PRECEDENCE_SEED, WORD_U64, NULL, NULL },
	{ NULL, 0, 0, NULL, NULL }
};

#define PRECEDENCE_USAGE								\
	"The average has a weight of 2^-LOG; LOG 0 makes it the backlog itself.\n"	\
	"Packets with the codepoint DSCP (af11) are IN, all others OUT.\n"		\
	"To change a queue, give only what changes.\n"

static inline int precedence_parse(struct qdisc_util *qu, int argc, char **argv,
				   struct nlmsghdr *n, const struct word *const *tables,
				   void (*usage)(void))
{
	struct rtattr *options = addattr_nest(n, MAX_MSG, TCA_OPTIONS | NLA_F_NESTED);

	if (add_words(n, tables, qu->id, usage, argc, argv))
		return -1;
	addattr_nest_end(n, options);
	return 0;
}

/* Packets under the name, bytes under name_bytes. */
static inline void precedence_print_count(const char *name, const struct tc_precedence_count *count)
{
	char bytes[32];

	snprintf(bytes, sizeof(bytes), "%s_bytes", name);
	print_string(PRINT_FP, NULL, "%s ", name);
	print_u64(PRINT_ANY, name, "%llu ", count->packets);
	print_u64(PRINT_ANY, bytes, "(%llub) ", count->bytes);
}

static inline void precedence_open_class(const char *name)
{
	open_json_object(name);
	print_nl();
	print_string(PRINT_FP, NULL, "  %s: ", name);
}

/* The plugin of a qdisc, from its list of tables `words`, name_usage and name_print_statistics. */
#define PRECEDENCE_UTIL(name)								\
static int name##_parse(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n, \
			const char *dev)						\
{											\
	(void)dev;									\
	return precedence_parse(qu, argc, argv, n, words, name##_usage);		\
}											\
											\
static int name##_print(struct qdisc_util *qu, FILE *f, struct rtattr *options)		\
{											\
	struct rtattr *tb[PRECEDENCE_ATTRIBUTES + 1];					\
											\
	(void)qu;									\
	(void)f;									\
	if (!options)									\
		return 0;								\
	parse_rtattr_nested(tb, PRECEDENCE_ATTRIBUTES, options);			\
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
