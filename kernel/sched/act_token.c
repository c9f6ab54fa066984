// SPDX-License-Identifier: GPL-2.0
/* The marker token: a token bucket, net/token_marker.h, as an action of tc. */
#include <linux/module.h>
#include <linux/random.h>

#include <net/token_marker.h>
#include <uapi/token.h>

#include "marker.h"

struct token_action {
	struct marker marker;
	struct token_marker_params params;
	struct token_marker_vars vars;
	struct token_marker_stats stats;
	atomic64_t untouched;
};

static const struct marker_word token_words[] = {
	MARKER_WORDS,
	[TCA_TOKEN_MODE] = { 1, 0, __TC_TOKEN_MODE_MAX - 1, TC_TOKEN_MODE_RESET,
			     "mode must be reset, continuous or flow" },
};

static struct token_action *to_token(const struct marker *m)
{
	return container_of(m, struct token_action, marker);
}

static int token_act(struct sk_buff *skb, const struct tc_action *a, struct tcf_result *res)
{
	struct token_action *t = to_token(to_marker(a));
	int control = marker_seen(&t->marker, skb);
	enum token_marker_verdict verdict;
	struct packet_info info;
	bool readable = packet_read(skb, &info) != PACKET_UNPARSEABLE;
	bool forward;
	u8 dscp = 0;

	spin_lock(&t->marker.common.tcfa_lock);
	forward = marker_forward(&t->marker, skb);
	if (forward && readable) {
		verdict = token_marker(&t->params, &t->vars, &t->stats, &info.key, info.len,
				       ktime_get_ns());
		dscp = t->marker.word[verdict == TOKEN_MARKER_IN ? TCA_MARKER_IN : TCA_MARKER_OUT];
	}
	spin_unlock(&t->marker.common.tcfa_lock);

	if (forward && !(readable && likely(packet_set_dscp(skb, &info, dscp))))
		atomic64_inc(&t->untouched);
	return control;
}

struct token_memory {
	struct flow_table flows;
	u64 records[];
};

static u64 token_memory(const struct marker *m, const u32 *word)
{
	const struct token_action *t = to_token(m);

	if (word[TCA_TOKEN_MODE] != TC_TOKEN_MODE_FLOW ||
	    (m->memory && t->vars.flows.capacity == word[TCA_MARKER_FLOWS]))
		return 0;
	return sizeof(struct token_memory) +
	       flow_table_bytes(word[TCA_MARKER_FLOWS], sizeof(struct token_marker_flow), true);
}

static void token_prepare(void *memory, const u32 *word)
{
	struct token_memory *to = memory;

	flow_table_init(&to->flows, to->records, word[TCA_MARKER_FLOWS],
			sizeof(struct token_marker_flow), true);
}

/* More flows: all are kept. Fewer: all are forgotten, which gives each a full pool. */
static void token_move(struct token_action *t, struct token_memory *to)
{
	if (t->marker.memory && to->flows.capacity > t->vars.flows.capacity)
		flow_table_move(&to->flows, &t->vars.flows);
	t->vars.flows = to->flows;
}

static void token_apply(struct marker *m, const u32 *word, void *memory, bool first, u64 now)
{
	struct token_action *t = to_token(m);

	if (first)
		flow_hash_init(&t->vars.hash, get_random_u64());
	if (memory)
		token_move(t, memory);
	t->params.mode = word[TCA_TOKEN_MODE];
	t->params.interval = word[TCA_MARKER_INTERVAL] * NSEC_PER_USEC;
	t->params.tokens = word[TCA_MARKER_TOKENS];
	if (first || word[TCA_TOKEN_MODE] != m->word[TCA_TOKEN_MODE] ||
	    word[TCA_MARKER_INTERVAL] != m->word[TCA_MARKER_INTERVAL])
		token_marker_start(&t->params, &t->vars, now);
}

static void token_xstats(const struct marker *m, void *xstats)
{
	const struct token_action *t = to_token(m);
	struct tc_token_xstats x = {
		.in_packets = t->stats.in_packets,
		.in_bytes = t->stats.in_bytes,
		.out_packets = t->stats.out_packets,
		.out_bytes = t->stats.out_bytes,
		.untouched = atomic64_read(&t->untouched),
		.evicted = t->stats.evicted,
	};

	if (m->word[TCA_TOKEN_MODE] == TC_TOKEN_MODE_FLOW)
		x.flows_now = t->vars.flows.count;
	memcpy(xstats, &x, sizeof(x));
}

MARKER_MODULE(token, TCA_ID_TOKEN, struct token_action);
MODULE_DESCRIPTION("Token bucket marker");
