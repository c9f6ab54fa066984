// SPDX-License-Identifier: GPL-2.0
/* Steps include/net/token_marker.h for tests/kernel/test_token_marker.py. */
#include <stdlib.h>

#include <net/token_marker.h>

struct step {
	u64 now;	/* ns */
	u32 len;
	u32 flow;
};

struct outcome {
	u64 evicted;
	u32 in;
	u32 flows;	/* with a record */
};

/* Flows of both families. */
static void key_of(struct flow_key *key, u32 flow)
{
	u8 addresses[32] = { 0 };

	memcpy(addresses, &flow, sizeof(flow));
	if (flow & 1)
		flow_key_ipv6(key, 6, addresses);
	else
		flow_key_ipv4(key, 17, addresses);
}

/* Returns 0, or 1 if there is no memory. The pools are full at steps[0].now. */
int drive_token_marker(u32 mode, u32 interval, u32 tokens, u32 flows, size_t count,
		       const struct step *steps, struct outcome *outcomes);

int drive_token_marker(u32 mode, u32 interval, u32 tokens, u32 flows, size_t count,
		       const struct step *steps, struct outcome *outcomes)
{
	const struct token_marker_params p = {
		.mode = mode, .interval = interval, .tokens = tokens,
	};
	const u32 bytes = sizeof(struct token_marker_flow);
	void *memory = calloc(1, flow_table_bytes(flows, bytes, true));
	struct token_marker_stats s = { 0 };
	struct token_marker_vars v = { 0 };

	if (!memory)
		return 1;
	flow_hash_init(&v.hash, tokens);
	flow_table_init(&v.flows, memory, flows, bytes, true);
	token_marker_start(&p, &v, steps[0].now);
	for (size_t i = 0; i < count; i++) {
		struct flow_key key;

		key_of(&key, steps[i].flow);
		outcomes[i].in = token_marker(&p, &v, &s, &key, steps[i].len, steps[i].now) ==
				 TOKEN_MARKER_IN;
		outcomes[i].evicted = s.evicted;
		outcomes[i].flows = v.flows.count;
	}
	free(memory);
	return 0;
}
