// SPDX-License-Identifier: GPL-2.0
/* The qdisc frio in tc: its words, its statistics. */
#include <uapi/frio.h>

#include "iproute2.h"
#include "words.h"

static const char *const modes[] = { "coupled", "decoupled", NULL };
static const char *const shares[] = { "instant", "average", NULL };

static const struct word words[] = {
	{ "limit", TCA_FRIO_LIMIT, WORD_SIZE, NULL, NULL },
	{ "in_min", TCA_FRIO_IN_MIN, WORD_SIZE, NULL, NULL },
	{ "in_max", TCA_FRIO_IN_MAX, WORD_SIZE, NULL, NULL },
	{ "in_probability", TCA_FRIO_IN_PROBABILITY, WORD_PROBABILITY, NULL, NULL },
	{ "out_min", TCA_FRIO_OUT_MIN, WORD_SIZE, NULL, NULL },
	{ "out_max", TCA_FRIO_OUT_MAX, WORD_SIZE, NULL, NULL },
	{ "out_probability", TCA_FRIO_OUT_PROBABILITY, WORD_PROBABILITY, NULL, NULL },
	{ "mode", TCA_FRIO_MODE, WORD_CHOICE, modes, "coupled or decoupled" },
	{ "share", TCA_FRIO_SHARE, WORD_CHOICE, shares, "instant or average" },
	{ "many_flows", TCA_FRIO_MANY_FLOWS, WORD_ON_OFF, NULL, NULL },
	{ "minq", TCA_FRIO_MINQ, WORD_U32, NULL, "a number of packets from 0 to 65535" },
	{ "flows", TCA_FRIO_FLOWS, WORD_U32, NULL, "a number from 1 to 1048576" },
	{ "ewma", TCA_FRIO_EWMA, WORD_U8, NULL, "a number from 0 to 31" },
	{ "avpkt", TCA_FRIO_AVPKT, WORD_SIZE, NULL, "a size from 1 to 65535 bytes" },
	{ "bandwidth", TCA_FRIO_BANDWIDTH, WORD_RATE, NULL, NULL },
	{ "in", TCA_FRIO_IN, WORD_DSCP, NULL, NULL },
	{ "seed", TCA_FRIO_SEED, WORD_U64, NULL, NULL },
	{ NULL, 0, 0, NULL, NULL },
};

static void frio_usage(void)
{
	fprintf(stderr,
		"Usage: ... frio limit BYTES\n"
		"                in_min BYTES  in_max BYTES  in_probability P\n"
		"                out_min BYTES out_max BYTES out_probability P\n"
		"                [ mode { coupled | decoupled } ]\n"
		"                [ share { instant | average } ]\n"
		"                [ many_flows { on | off } ]\n"
		"                [ minq PACKETS ] [ flows NUMBER ]\n"
		"                [ ewma LOG ] [ avpkt BYTES ] [ bandwidth RATE ]\n"
		"                [ in DSCP ] [ seed NUMBER ]\n"
		"\n"
		"A flow that has less than PACKETS (2) of avpkt bytes queued is not dropped at random.\n"
		"The average has a weight of 2^-LOG; LOG 0 makes it the backlog itself.\n"
		"Packets with the codepoint DSCP (af11) are IN, all others OUT.\n"
		"To change a queue, give only what changes.\n");
}

static int frio_parse(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n,
		      const char *dev)
{
	struct rtattr *options = addattr_nest(n, MAX_MSG, TCA_OPTIONS | NLA_F_NESTED);

	(void)dev;
	if (add_words(n, words, qu->id, frio_usage, argc, argv))
		return -1;
	addattr_nest_end(n, options);
	return 0;
}

static int frio_print(struct qdisc_util *qu, FILE *f, struct rtattr *options)
{
	struct rtattr *tb[TCA_FRIO_MAX + 1];

	(void)qu;
	(void)f;
	if (!options)
		return 0;
	parse_rtattr_nested(tb, TCA_FRIO_MAX, options);
	print_words(words, tb);
	return 0;
}

static void frio_print_class(const char *name, const struct tc_frio_class_xstats *x)
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
	print_u64(PRINT_ANY, "strike", "strike %llu ", x->strike);
	print_u64(PRINT_ANY, "strike_bytes", "(%llub) ", x->strike_bytes);
	print_u64(PRINT_ANY, "pdrop", "pdrop %llu ", x->pdrop);
	print_u64(PRINT_ANY, "pdrop_bytes", "(%llub) ", x->pdrop_bytes);
	print_uint(PRINT_ANY, "backlog", "backlog %ub ", x->backlog);
	print_uint(PRINT_ANY, "average", "average %ub ", x->average);
	print_uint(PRINT_ANY, "flows", "flows %u", x->flows);
	close_json_object();
}

static int frio_print_xstats(struct qdisc_util *qu, FILE *f, struct rtattr *xstats)
{
	struct tc_frio_xstats x;

	(void)qu;
	(void)f;
	if (!xstats)
		return 0;
	if (RTA_PAYLOAD(xstats) < sizeof(x))
		return -1;
	memcpy(&x, RTA_DATA(xstats), sizeof(x));
	print_uint(PRINT_ANY, "flows", "  flows %u ", x.flows);
	print_u64(PRINT_ANY, "overflow", "overflow %llu", x.overflow);
	frio_print_class("in", &x.in);
	frio_print_class("out", &x.out);
	return 0;
}

struct qdisc_util frio_qdisc_util = {
	.id = "frio",
	.parse_qopt = frio_parse,
	.print_qopt = frio_print,
	.print_xstats = frio_print_xstats,
};
