// SPDX-License-Identifier: GPL-2.0
/* The qdisc frio in tc: its words, its statistics. */
#include <uapi/frio.h>

#include "iproute2.h"
#include "precedence.h"

static const char *const modes[] = { "coupled", "decoupled", NULL };
static const char *const shares[] = { "instant", "average", NULL };

static const struct word frio_words[] = {
	{ "mode", TCA_PRECEDENCE_MODE, WORD_CHOICE, modes, "coupled or decoupled" },
	{ "share", TCA_FRIO_SHARE, WORD_CHOICE, shares, "instant or average" },
	{ "many_flows", TCA_FRIO_MANY_FLOWS, WORD_ON_OFF, NULL, NULL },
	{ "minq", TCA_FRIO_MINQ, WORD_U32, NULL, "a number of packets from 0 to 65535" },
	{ "flows", TCA_FRIO_FLOWS, WORD_U32, NULL, "a number from 1 to 1048576" },
	{ "ewma", TCA_PRECEDENCE_EWMA, WORD_U8, NULL, "a number from 0 to 31" },
	{ "avpkt", TCA_PRECEDENCE_AVPKT, WORD_SIZE, NULL, "a size from 1 to 65535 bytes" },
	{ NULL, 0, 0, NULL, NULL }
};

static const struct word *const words[] = {
	precedence_first, frio_words, precedence_last, NULL
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
		PRECEDENCE_USAGE);
}

static void frio_print_class(const char *name, const struct tc_frio_class_xstats *x)
{
	precedence_open_class(name);
	precedence_print_count("enqueued", &x->enqueued);
	precedence_print_count("early", &x->early);
	precedence_print_count("forced", &x->forced);
	precedence_print_count("strike", &x->strike);
	precedence_print_count("pdrop", &x->pdrop);
	print_uint(PRINT_ANY, "backlog", "backlog %ub ", x->backlog);
	print_uint(PRINT_ANY, "average", "average %ub ", x->average);
	print_uint(PRINT_ANY, "flows_now", "flows_now %u", x->flows_now);
	close_json_object();
}

static void frio_print_statistics(const struct tc_frio_xstats *x)
{
	print_uint(PRINT_ANY, "flows_now", "  flows_now %u ", x->flows_now);
	print_u64(PRINT_ANY, "overflow", "overflow %llu", x->overflow);
	frio_print_class("in", &x->in);
	frio_print_class("out", &x->out);
}

PRECEDENCE_UTIL(frio);
