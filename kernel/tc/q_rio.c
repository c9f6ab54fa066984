// SPDX-License-Identifier: GPL-2.0
/* The qdisc rio in tc: its words, its statistics. */
#include <uapi/rio.h>

#include "iproute2.h"
#include "precedence.h"

static const char *const modes[] = { "coupled", "decoupled", "wred", NULL };
static const char *const uniformize[] = { "none", "red", NULL };

static const struct word rio_words[] = {
	{ "mode", TCA_PRECEDENCE_MODE, WORD_CHOICE, modes, "coupled, decoupled or wred" },
	{ "uniformize", TCA_RIO_UNIFORMIZE, WORD_CHOICE, uniformize, "none or red" },
	{ "ewma", TCA_PRECEDENCE_EWMA, WORD_U8, NULL, "a number from 0 to 31" },
	{ "avpkt", TCA_PRECEDENCE_AVPKT, WORD_SIZE, NULL, NULL },
	{ NULL, 0, 0, NULL, NULL }
};

static const struct word *const words[] = {
	precedence_first, rio_words, precedence_last, NULL
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
		PRECEDENCE_USAGE);
}

static void rio_print_class(const char *name, const struct tc_rio_class_xstats *x)
{
	precedence_open_class(name);
	precedence_print_count("enqueued", &x->enqueued);
	precedence_print_count("early", &x->early);
	precedence_print_count("forced", &x->forced);
	precedence_print_count("pdrop", &x->pdrop);
	print_uint(PRINT_ANY, "backlog", "backlog %ub ", x->backlog);
	print_uint(PRINT_ANY, "average", "average %ub", x->average);
	close_json_object();
}

static void rio_print_statistics(const struct tc_rio_xstats *x)
{
	print_uint(PRINT_ANY, "average", "  average %ub", x->average);
	rio_print_class("in", &x->in);
	rio_print_class("out", &x->out);
}

PRECEDENCE_UTIL(rio);
