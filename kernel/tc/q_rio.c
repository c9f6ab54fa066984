// SPDX-License-Identifier: GPL-2.0
/* The qdisc rio in tc: its words, its statistics. */
#include <uapi/rio.h>

#include "iproute2.h"
#include "words.h"

static const char *const modes[] = { "coupled", "decoupled", "wred", NULL };
static const char *const uniformize[] = { "none", "red", NULL };

static const struct word words[] = {
	{ "limit", TCA_RIO_LIMIT, WORD_SIZE, NULL, NULL },
	{ "in_min", TCA_RIO_IN_MIN, WORD_SIZE, NULL, NULL },
	{ "in_max", TCA_RIO_IN_MAX, WORD_SIZE, NULL, NULL },
	{ "in_probability", TCA_RIO_IN_PROBABILITY, WORD_PROBABILITY, NULL, NULL },
	{ "out_min", TCA_RIO_OUT_MIN, WORD_SIZE, NULL, NULL },
	{ "out_max", TCA_RIO_OUT_MAX, WORD_SIZE, NULL, NULL },
	{ "out_probability", TCA_RIO_OUT_PROBABILITY, WORD_PROBABILITY, NULL, NULL },
	{ "mode", TCA_RIO_MODE, WORD_CHOICE, modes, "coupled, decoupled or wred" },
	{ "uniformize", TCA_RIO_UNIFORMIZE, WORD_CHOICE, uniformize, "none or red" },
	{ "ewma", TCA_RIO_EWMA, WORD_U8, NULL, "a number from 0 to 31" },
	{ "avpkt", TCA_RIO_AVPKT, WORD_SIZE, NULL, NULL },
	{ "bandwidth", TCA_RIO_BANDWIDTH, WORD_RATE, NULL, NULL },
	{ "in", TCA_RIO_IN, WORD_DSCP, NULL, NULL },
	{ "seed", TCA_RIO_SEED, WORD_U64, NULL, NULL },
	{ NULL, 0, 0, NULL, NULL },
};

static void rio_usage(void)
{
	fprintf(stderr,
		"Usage: ... rio limit BYTES\n"
		"               in_min BYTES  in_max BYTES  in_probability P\n"
		"               out_min BYTES out_max BYTES out_probability P\n"
		"               [ mode { coupled | decoupled | wred } ]\n"
		"               [ uniformize { none | red } ]\n"
		"               [ ewma LOG ] [ avpkt BYTES ] [ bandwidth RATE ]\n"
		"               [ in DSCP ] [ seed NUMBER ]\n"
		"\n"
		"The average has a weight of 2^-LOG; LOG 0 makes it the backlog itself.\n"
		"Packets with the codepoint DSCP (af11) are IN, all others OUT.\n"
		"To change a queue, give only what changes.\n");
}

static int rio_parse(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n,
		     const char *dev)
{
	struct rtattr *options = addattr_nest(n, MAX_MSG, TCA_OPTIONS | NLA_F_NESTED);

	(void)dev;
	if (add_words(n, words, qu->id, rio_usage, argc, argv))
		return -1;
	addattr_nest_end(n, options);
	return 0;
}

static int rio_print(struct qdisc_util *qu, FILE *f, struct rtattr *options)
{
	struct rtattr *tb[TCA_RIO_MAX + 1];

	(void)qu;
	(void)f;
	if (!options)
		return 0;
	parse_rtattr_nested(tb, TCA_RIO_MAX, options);
	print_words(words, tb);
	return 0;
}

static void rio_print_class(const char *name, const struct tc_rio_class_xstats *x)
{
	open_json_object(name);
	print_nl();
	print_string(PRINT_FP, NULL, "  %s: ", name);
	print_u64(PRINT_ANY, "enqueued", "enqueued %llu ", x->enqueued);
	print_u64(PRINT_ANY, "enqueued_bytes", "(%llub) ", x->enqueued_bytes);
	print_u64(PRINT_ANY, "early", "early %llu ", x->early);
	print_u64(PRINT_ANY, "early_bytes", "(%llub) ", x->early_bytes);
	print_u64(PRINT_ANY, "forced", "forced %llu ", x->forced);
	print_u64(PRINT_ANY, "forced_bytes", "(%llub) ", x->forced_bytes);
	print_u64(PRINT_ANY, "pdrop", "pdrop %llu ", x->pdrop);
	print_u64(PRINT_ANY, "pdrop_bytes", "(%llub) ", x->pdrop_bytes);
	print_uint(PRINT_ANY, "backlog", "backlog %ub ", x->backlog);
	print_uint(PRINT_ANY, "average", "average %ub", x->average);
	close_json_object();
}

static int rio_print_xstats(struct qdisc_util *qu, FILE *f, struct rtattr *xstats)
{
	struct tc_rio_xstats x;

	(void)qu;
	(void)f;
	if (!xstats)
		return 0;
	if (RTA_PAYLOAD(xstats) < sizeof(x))
		return -1;
	memcpy(&x, RTA_DATA(xstats), sizeof(x));
	print_uint(PRINT_ANY, "average", "  average %ub", x.average);
	rio_print_class("in", &x.in);
	rio_print_class("out", &x.out);
	return 0;
}

struct qdisc_util rio_qdisc_util = {
	.id = "rio",
	.parse_qopt = rio_parse,
	.print_qopt = rio_print,
	.print_xstats = rio_print_xstats,
};
