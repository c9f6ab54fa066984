// SPDX-License-Identifier: GPL-2.0
/*
 * The marker tcpf: include/net/tcpf_marker.h says what it does. Here are its words, and a packet's
 * way through it under the lock of the action, whose state both directions share.
 */
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <linux/timekeeping.h>

#include <net/tcpf_marker.h>
#include <uapi/tcpf.h>

#include "marker.h"

struct tcpf_action {
	struct marker marker;
	struct tcpf_params params;
	struct tcpf_marker state;
	atomic64_t unwritable;
};

static const struct marker_word tcpf_words[] = {
	MARKER_WORDS,
	[TCA_TCPF_PROFILE] = { 1, 0, __TC_TCPF_PROFILE_MAX - 1, TC_TCPF_PROFILE_RECOMMENDED,
			       "profile must be recommended, paper or letter" },
	[TCA_TCPF_RETRANSMITS] = { 1, 0, __TC_TCPF_RETRANSMITS_MAX - 1,
				   TC_TCPF_RETRANSMITS_PROTECT,
				   "retransmits must be protect or plain" },
};

static inline struct tcpf_action *to_tcpf(const struct marker *m)
{
	return container_of(m, struct tcpf_action, marker);
}

static int tcpf_act(struct sk_buff *skb, const struct tc_action *a, struct tcf_result *res)
{
	struct tcpf_action *t = to_tcpf(to_marker(a));
	enum tcpf_verdict verdict = TCPF_LEAVE;
	int control = marker_seen(&t->marker, skb);
	struct packet_info info;
	enum packet_kind kind = packet_read(skb, &info);
	u8 dscp;

	spin_lock(&t->marker.common.tcfa_lock);
	if (marker_forward(&t->marker, skb))
		verdict = tcpf_mark(&t->params, &t->state, kind, &info, ktime_get_ns());
	else
		tcpf_read_reverse(&t->params, &t->state, kind, &info, ktime_get_ns());
	dscp = t->marker.word[verdict == TCPF_IN ? TCA_MARKER_IN : TCA_MARKER_OUT];
	spin_unlock(&t->marker.common.tcfa_lock);

	if (verdict != TCPF_LEAVE && unlikely(!packet_set_dscp(skb, &info, dscp)))
		atomic64_inc(&t->unwritable);
	return control;
}

struct tcpf_memory {
	struct tcpf_room room;
	u64 records[];
};

static u64 tcpf_memory(const struct marker *m, const u32 *word)
{
	u32 flows = word[TCA_MARKER_FLOWS];

	if (m->memory && flows == m->word[TCA_MARKER_FLOWS])
		return 0;
	return sizeof(struct tcpf_memory) + tcpf_marker_bytes(flows);
}

static void tcpf_prepare(void *memory, const u32 *word)
{
	struct tcpf_memory *to = memory;

	tcpf_room_init(&to->room, to->records, word[TCA_MARKER_FLOWS]);
}

static void tcpf_apply(struct marker *m, const u32 *word, void *memory, bool first, u64 now)
{
	struct tcpf_action *t = to_tcpf(m);
	const struct tcpf_memory *to = memory;
	struct tcpf_params params;

	tcpf_set_params(&params, (u64)word[TCA_MARKER_INTERVAL] * NSEC_PER_USEC,
			word[TCA_MARKER_TOKENS],
			word[TCA_TCPF_PROFILE] != TC_TCPF_PROFILE_RECOMMENDED,
			word[TCA_TCPF_RETRANSMITS] == TC_TCPF_RETRANSMITS_PLAIN);
	params.by_one = word[TCA_TCPF_PROFILE] == TC_TCPF_PROFILE_LETTER;
	if (first) {
		t->params = params;
		tcpf_marker_init(&t->state, &params, &to->room, get_random_u64(), now);
		return;
	}
	tcpf_marker_change(&t->params, &params, &t->state, now);
	if (to)
		tcpf_marker_resize(&t->state, &to->room);
}

static void tcpf_xstats(const struct marker *m, void *xstats)
{
	const struct tcpf_action *t = to_tcpf(m);
	const struct tcpf_marker *state = &t->state;
	struct tc_tcpf_xstats to = {
		.unwritable = atomic64_read(&t->unwritable),
		.ticks = state->stats.ticks,
		.evicted = state->stats.evicted,
		.expired = state->stats.expired,
		.flows_now = state->flows.count,
		.active_flows = state->active_count,
		.tiny_flows = state->tiny_flows,
		.handshakes = state->handshakes.count,
		.pool = state->pool,
		.spare = state->spare,
		.debt = state->debt,
	};
	int i;

	BUILD_BUG_ON((int)TCPF_REASONS != (int)__TC_TCPF_REASONS);
	BUILD_BUG_ON((int)TCPF_ALLOCATED != (int)TC_TCPF_ALLOCATED);
	for (i = 0; i < TCPF_REASONS; i++) {
		to.reason[i].packets = state->stats.packets[i];
		to.reason[i].bytes = state->stats.bytes[i];
	}
	memcpy(xstats, &to, sizeof(to));	/* attributes are aligned to 4 bytes alone */
}

MARKER_MODULE(tcpf, TCA_ID_TCPF, struct tcpf_action);
MODULE_DESCRIPTION("TCP-friendly marker");
