// SPDX-License-Identifier: GPL-2.0
/* The marker tcpf in tc: its words, its statistics. */
#include <uapi/tcpf.h>

#include "iproute2.h"
#include "marker.h"

static const char *const profiles[] = { "recommended", "paper", "letter", NULL };
static const char *const retransmits[] = { "protect", "plain", NULL };

static const struct word tcpf_words[] = {
	{ "profile", TCA_TCPF_PROFILE, WORD_CHOICE, profiles, "recommended, paper or letter" },
	{ "retransmits", TCA_TCPF_RETRANSMITS, WORD_CHOICE, retransmits, "protect or plain" },
	{ NULL, 0, 0, NULL, NULL }
};

static const struct word *const words[] = { marker_first, tcpf_words, marker_last, NULL };

static const char *const reasons[] = {
	[TC_TCPF_CONTROL] = "control",
	[TC_TCPF_ACK] = "ack",
	[TC_TCPF_RETRANSMISSION] = "retransmission",
	[TC_TCPF_NEW] = "new",
	[TC_TCPF_TINY] = "tiny",
	[TC_TCPF_ALLOCATED] = "allocated",
	[TC_TCPF_SPACED] = "spaced",
	[TC_TCPF_NO_TOKENS] = "no_tokens",
	[TC_TCPF_NO_SPARE] = "no_spare",
	[TC_TCPF_OTHER] = "other",
	[TC_TCPF_UNPARSEABLE] = "unparseable",
};

static void tcpf_usage(void)
{
	fprintf(stderr,
		"Usage: ... tcpf interval TIME tokens BYTES\n"
		"          [ profile { recommended | paper | letter } ]\n"
		"          [ retransmits { protect | plain } ]\n"
		MARKER_USAGE
		"\n"
		"BYTES are divided among the TCP flows in each TIME, small windows first.\n"
		"recommended: overdrafts and retransmissions are paid for later, and an expired\n"
		"timer makes a small window. paper: the published algorithm, tokens in bytes.\n"
		"letter: the same, but a packet takes one from its flow's share, not its length.\n"
		"protect: retransmissions are in profile. plain: they are packets like others.\n");
}

static void tcpf_print_reasons(const struct tc_tcpf_xstats *x)
{
	for (int i = 0; i < __TC_TCPF_REASONS; i++) {
		print_string(PRINT_FP, NULL, "\t %s ", reasons[i]);
		open_json_object(reasons[i]);
		print_u64(PRINT_ANY, "packets", "packets %llu ", x->reason[i].packets);
		print_u64(PRINT_ANY, "bytes", "bytes %llu", x->reason[i].bytes);
		close_json_object();
		print_nl();
	}
}

/* The sum over what is in profile, or out of it, under the names that the marker token has too. */
static void tcpf_print_sum(const struct tc_tcpf_xstats *x, int first, int last,
			   const char *packets_key, const char *bytes_key)
{
	struct tc_tcpf_count sum = { 0, 0 };

	for (int i = first; i <= last; i++) {
		sum.packets += x->reason[i].packets;
		sum.bytes += x->reason[i].bytes;
	}
	print_string(PRINT_FP, NULL, "%s ", packets_key);
	print_u64(PRINT_ANY, packets_key, "%llu ", sum.packets);
	print_string(PRINT_FP, NULL, "%s ", bytes_key);
	print_u64(PRINT_ANY, bytes_key, "%llu ", sum.bytes);
}

static void tcpf_print_xstats(const void *xstats)
{
	const struct tc_tcpf_xstats *x = xstats;

	print_string(PRINT_FP, NULL, "%s", "\t ");
	tcpf_print_sum(x, TC_TCPF_CONTROL, TC_TCPF_ALLOCATED, "in_packets", "in_bytes");
	tcpf_print_sum(x, TC_TCPF_SPACED, TC_TCPF_OTHER, "out_packets", "out_bytes");
	print_nl();
	tcpf_print_reasons(x);
	print_u64(PRINT_ANY, "unwritable", "\t unwritable %llu ", x->unwritable);
	print_u64(PRINT_ANY, "ticks", "ticks %llu ", x->ticks);
	print_uint(PRINT_ANY, "pool", "pool %u ", x->pool);
	print_uint(PRINT_ANY, "spare", "spare %u ", x->spare);
	print_uint(PRINT_ANY, "debt", "debt %u", x->debt);
	print_nl();
	print_uint(PRINT_ANY, "flows_now", "\t flows_now %u ", x->flows_now);
	print_uint(PRINT_ANY, "active_flows", "active_flows %u ", x->active_flows);
	print_uint(PRINT_ANY, "tiny_flows", "tiny_flows %u ", x->tiny_flows);
	print_uint(PRINT_ANY, "handshakes", "handshakes %u ", x->handshakes);
	print_u64(PRINT_ANY, "evicted", "evicted %llu ", x->evicted);
	print_u64(PRINT_ANY, "expired", "expired %llu", x->expired);
	print_nl();
}

MARKER_UTIL(tcpf);
