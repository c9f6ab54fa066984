// SPDX-License-Identifier: GPL-2.0
/* The marker token in tc: its words, its statistics. */
#include <uapi/token.h>

#include "iproute2.h"
#include "marker.h"

static const char *const modes[] = { "reset", "continuous", "flow", NULL };

static const struct word token_words[] = {
	{ "mode", TCA_TOKEN_MODE, WORD_CHOICE, modes, "reset, continuous or flow" },
	{ NULL, 0, 0, NULL, NULL }
};

static const struct word *const words[] = { marker_first, token_words, marker_last, NULL };

static void token_usage(void)
{
	fprintf(stderr,
		"Usage: ... token interval TIME tokens BYTES\n"
		"          [ mode { reset | continuous | flow } ]\n"
		MARKER_USAGE
		"\n"
		"reset: BYTES at each tick, unused ones vanish. continuous: BYTES in each TIME,\n"
		"BYTES at most. flow: as continuous, for each flow.\n");
}

static void token_print_xstats(const void *xstats)
{
	const struct tc_token_xstats *x = xstats;

	print_u64(PRINT_ANY, "in_packets", "\t in_packets %llu ", x->in_packets);
	print_u64(PRINT_ANY, "in_bytes", "in_bytes %llu ", x->in_bytes);
	print_u64(PRINT_ANY, "out_packets", "out_packets %llu ", x->out_packets);
	print_u64(PRINT_ANY, "out_bytes", "out_bytes %llu ", x->out_bytes);
	print_nl();
	print_u64(PRINT_ANY, "untouched", "\t untouched %llu ", x->untouched);
	print_uint(PRINT_ANY, "flows_now", "flows_now %u ", x->flows_now);
	print_u64(PRINT_ANY, "evicted", "evicted %llu", x->evicted);
	print_nl();
}

MARKER_UTIL(token);
