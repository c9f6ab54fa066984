/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the TCP-friendly marker (tcpf_marker.h) knows of each flow, and the memory of it.
 *
 * Only data makes a flow's record, so that SYNs cost nobody's; the MSS of handshakes under way is
 * kept in a small table of its own. When either table is full, who was silent for longest goes.
 * No memory is taken after the start: a marker of 65536 flows has 10.2 MB whatever comes.
 */
#ifndef NET_TCPF_FLOWS_H
#define NET_TCPF_FLOWS_H

#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>

#include <net/flow_key.h>
#include <net/flow_table.h>
#include <net/max_min.h>
#include <net/packet_parse.h>

#define TCPF_TINY_SEGMENTS	4			/* K */
#define TCPF_MSS_MIN		88			/* no host has less */
#define TCPF_MSS_UNKNOWN	536
#define TCPF_TIMESTAMPS_BYTES	12
#define TCPF_RTO_MIN		200000000ULL		/* ns */
#define TCPF_IDLE_MAX		120000000000ULL		/* ns; the longest timeout Linux waits */
#define TCPF_REAP_MAX		256			/* idle flows removed at once */
#define TCPF_WINDOW_SHIFT	16			/* W is kept as W * 2^16 */
#define TCPF_ONE		0x100000000ULL		/* one packet, as count and S have it */
#define TCPF_HANDSHAKES_MAX	4096U

enum tcpf_reason {
	TCPF_CONTROL,		/* IN: SYN; FIN or RST without data */
	TCPF_ACK,		/* IN: pure ACK */
	TCPF_RETRANSMISSION,	/* IN */
	TCPF_NEW,		/* IN: no tick yet, paid from what is spare */
	TCPF_TINY,		/* IN: allocated, tiny flow */
	TCPF_ALLOCATED,		/* IN: allocated, other flow */
	TCPF_SPACED,		/* OUT: has tokens, but not yet its turn */
	TCPF_NO_TOKENS,		/* OUT: has used up its share */
	TCPF_NO_SPARE,		/* OUT: no tick yet, and nothing spare */
	TCPF_OTHER,		/* OUT: not TCP, or a fragment */
	TCPF_UNPARSEABLE,	/* left alone */
	TCPF_REASONS
};

enum tcpf_verdict {
	TCPF_LEAVE,
	TCPF_IN,
	TCPF_OUT,
};

struct tcpf_params {
	u64	interval;	/* T, ns */
	u32	tokens;		/* M, bytes */
	bool	carry;		/* r2 */
	bool	charge;		/* r7 */
	bool	rto_window;	/* r10 */
	bool	tiny_max;	/* r20 */
	bool	protect;	/* step (b) of Algorithm 2 */
	bool	by_one;		/* r1 */
};

struct tcpf_stats {
	u64	packets[TCPF_REASONS];
	u64	bytes[TCPF_REASONS];
	u64	ticks;
	u64	evicted;	/* records taken from one flow for another */
	u64	expired;	/* records of flows that ended or fell silent */
};

#define TCPF_FIN_FORWARD	0x01
#define TCPF_FIN_REVERSE	0x02
#define TCPF_RESET		0x04

#define TCPF_PASSIVE		(~0U)	/* place of a flow that ticks need not look at */

struct tcpf_flow {
	struct flow_entry entry;
	u64	last_seen;	/* ns */
	u64	progress;	/* ns, r10 */
	u64	closed;		/* ns, when the second side closed */
	u64	window;		/* W, see TCPF_WINDOW_SHIFT */
	u64	spacing;	/* S, Q32.32 */
	u64	count;		/* Q32.32 */
	s64	in_count;	/* bytes */
	u32	snd_max;
	u32	una;
	u32	sent;		/* bytes in the running interval */
	u32	estimate;	/* E */
	u32	demand;		/* at the last tick */
	u32	place;		/* in the list that ticks work off, or TCPF_PASSIVE */
	u16	mss_option;	/* 0: not seen */
	u16	mss;
	u8	ended;		/* TCPF_FIN_*, TCPF_RESET */
	bool	sampled;	/* W has a value */
	bool	ticked;		/* the flow has had a tick */
	bool	tiny;		/* at the last tick */
};

/* A handshake under way: what its data's receiver accepts. */
struct tcpf_handshake {
	struct flow_entry entry;
	u16	mss;
};

/* Memory for records, divided up, with none in it yet. */
struct tcpf_room {
	struct flow_table flows;
	struct flow_table handshakes;
	u32	*active;
};

struct tcpf_marker {
	struct flow_table flows;
	struct flow_table handshakes;
	struct flow_hash hash;
	u32	*active;	/* indices of the flows that a tick has to look at, in any order */
	u32	active_count;
	u32	tiny_flows;	/* at the last tick */
	u64	next_tick;	/* ns */
	u32	spare;		/* bytes of this interval that are nobody's */
	u32	pool;		/* bytes of this interval not used up; overdrafts count */
	u32	debt;		/* bytes */
	struct max_min level;
	struct tcpf_stats stats;
};

/**
 * tcpf_set_params() - expands what is configured into the switches
 * @p: filled in
 * @interval: T in ns, at least 1
 * @tokens: M in bytes, at least 1
 * @paper: the literal reading: r2, r7, r10 and r20 off
 * @plain: retransmissions are packets like others, as in the marker of IWQoS 2000
 */
static inline void tcpf_set_params(struct tcpf_params *p, u64 interval, u32 tokens, bool paper,
				   bool plain)
{
	p->interval = interval;
	p->tokens = tokens;
	p->carry = !paper;
	p->charge = !paper;
	p->rto_window = !paper && !plain;
	p->tiny_max = !paper;
	p->protect = !plain;
	p->by_one = false;
}

static inline u32 tcpf_handshakes(u32 flows)
{
	return clamp_t(u32, flows / 16, 16U, TCPF_HANDSHAKES_MAX);
}

/* Bytes of zeroed memory, aligned to 8, that a marker of at least 1 flow works in. */
static inline u64 tcpf_marker_bytes(u32 flows)
{
	return flow_table_bytes(flows, sizeof(struct tcpf_flow), true) + 8 +
	       flow_table_bytes(tcpf_handshakes(flows), sizeof(struct tcpf_handshake), true) +
	       (u64)flows * sizeof(u32);
}

/*
 * Divides memory, tcpf_marker_bytes(@flows) of it, and writes its hash chains: no marker has to be
 * locked for it. r->flows.records is what to free.
 */
static inline void tcpf_room_init(struct tcpf_room *r, void *memory, u32 flows)
{
	u64 first = (flow_table_bytes(flows, sizeof(struct tcpf_flow), true) + 7) & ~7ULL;
	u32 handshakes = tcpf_handshakes(flows);
	u64 second = flow_table_bytes(handshakes, sizeof(struct tcpf_handshake), true);
	u8 *start = memory;

	flow_table_init(&r->flows, memory, flows, sizeof(struct tcpf_flow), true);
	flow_table_init(&r->handshakes, start + first, handshakes, sizeof(struct tcpf_handshake),
			true);
	r->active = (u32 *)(start + first + second);
}

/* Counters and tokens stay as they are. */
static inline void tcpf_marker_enter(struct tcpf_marker *m, const struct tcpf_room *room)
{
	m->flows = room->flows;
	m->handshakes = room->handshakes;
	m->active = room->active;
	m->active_count = 0;
}

/**
 * tcpf_marker_init() - a marker without flows, whose first interval begins now, with all tokens
 * @m: zeroed
 * @p: the parameters
 * @room: newly initialised
 * @seed: of the hash; no result depends on it
 * @now: ns
 */
static inline void tcpf_marker_init(struct tcpf_marker *m, const struct tcpf_params *p,
				    const struct tcpf_room *room, u64 seed, u64 now)
{
	tcpf_marker_enter(m, room);
	flow_hash_init(&m->hash, seed);
	m->next_tick = now + p->interval;
	m->spare = p->tokens;
	m->pool = p->tokens;
	m->debt = 0;
}

static inline struct tcpf_flow *tcpf_flow(const struct tcpf_marker *m, u32 index)
{
	return flow_table_record(&m->flows, index);
}

static inline struct tcpf_handshake *tcpf_handshake(const struct tcpf_marker *m, u32 index)
{
	return flow_table_record(&m->handshakes, index);
}

static inline bool tcpf_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline void tcpf_activate(struct tcpf_marker *m, u32 index)
{
	struct tcpf_flow *f = tcpf_flow(m, index);

	if (f->place != TCPF_PASSIVE)
		return;
	f->place = m->active_count;
	m->active[m->active_count++] = index;
}

static inline void tcpf_deactivate(struct tcpf_marker *m, struct tcpf_flow *f)
{
	u32 last;

	if (f->place == TCPF_PASSIVE)
		return;
	last = m->active[--m->active_count];
	m->active[f->place] = last;
	tcpf_flow(m, last)->place = f->place;
	f->place = TCPF_PASSIVE;
}

static inline void tcpf_forget(struct tcpf_marker *m, u32 index)
{
	tcpf_deactivate(m, tcpf_flow(m, index));
	flow_table_remove(&m->flows, index);
}

static inline bool tcpf_is_closed(const struct tcpf_flow *f)
{
	const u8 both = TCPF_FIN_FORWARD | TCPF_FIN_REVERSE;

	return (f->ended & TCPF_RESET) || (f->ended & both) == both;
}

static inline bool tcpf_is_idle(const struct tcpf_flow *f, u64 now)
{
	return now >= f->last_seen + TCPF_IDLE_MAX;
}

/* Flows that were silent for too long, the longest silent first. */
static inline void tcpf_reap(struct tcpf_marker *m, u64 now)
{
	u32 i;

	for (i = 0; i < TCPF_REAP_MAX; i++) {
		u32 oldest = flow_table_oldest(&m->flows);

		if (oldest == FLOW_TABLE_NONE || !tcpf_is_idle(tcpf_flow(m, oldest), now))
			return;
		tcpf_forget(m, oldest);
		m->stats.expired++;
	}
}

/* The flow's index if it is known; one that was silent for too long is not. */
static inline u32 tcpf_find(struct tcpf_marker *m, const struct flow_key *key, u32 hash, u64 now)
{
	u32 index = flow_table_find(&m->flows, key, hash);

	if (index == FLOW_TABLE_NONE)
		return index;
	if (tcpf_is_idle(tcpf_flow(m, index), now)) {
		tcpf_forget(m, index);
		m->stats.expired++;
		return FLOW_TABLE_NONE;
	}
	tcpf_flow(m, index)->last_seen = now;
	flow_table_touch(&m->flows, index);
	return index;
}

/* What the handshake said about the flow's MSS, which is wanted only once. */
static inline u16 tcpf_take_mss(struct tcpf_marker *m, const struct flow_key *key, u32 hash)
{
	u32 index = flow_table_find(&m->handshakes, key, hash);
	u16 mss;

	if (index == FLOW_TABLE_NONE)
		return 0;
	mss = tcpf_handshake(m, index)->mss;
	flow_table_remove(&m->handshakes, index);
	return mss;
}

/* A record for a flow that has sent data; the flow that was silent for longest gives way. */
static inline u32 tcpf_new(struct tcpf_marker *m, const struct packet_info *info, u32 hash, u64 now)
{
	struct tcpf_flow *f;
	u32 index;

	if (m->flows.count == m->flows.capacity) {
		tcpf_forget(m, flow_table_oldest(&m->flows));
		m->stats.evicted++;
	}
	index = flow_table_insert(&m->flows, &info->key, hash);
	f = tcpf_flow(m, index);
	memset((u8 *)f + sizeof(f->entry), 0, sizeof(*f) - sizeof(f->entry));
	f->last_seen = now;
	f->snd_max = info->seq;
	f->una = info->seq;
	f->place = TCPF_PASSIVE;
	f->mss_option = tcpf_take_mss(m, &info->key, hash);
	return index;
}

/* A handshake of the data's receiver. The oldest of them gives way; data flows are not touched. */
static inline void tcpf_note_handshake(struct tcpf_marker *m, const struct flow_key *key, u32 hash,
				       u16 mss)
{
	u32 index = flow_table_find(&m->handshakes, key, hash);

	if (index == FLOW_TABLE_NONE) {
		if (m->handshakes.count == m->handshakes.capacity)
			flow_table_remove(&m->handshakes, flow_table_oldest(&m->handshakes));
		index = flow_table_insert(&m->handshakes, key, hash);
	}
	tcpf_handshake(m, index)->mss = max_t(u16, mss, TCPF_MSS_MIN);
}

/*
 * Moves to a newly initialised room for another number of flows. If they do not all fit, those that
 * were silent for longest go. Handshakes under way are forgotten. The old memory is done with; it
 * was at m->flows.records.
 */
static inline void tcpf_marker_resize(struct tcpf_marker *m, const struct tcpf_room *room)
{
	struct flow_table old = m->flows;
	u32 surplus = old.count > room->flows.capacity ? old.count - room->flows.capacity : 0;
	u32 i;

	tcpf_marker_enter(m, room);
	m->stats.evicted += surplus;
	for (i = flow_table_oldest(&old); i != FLOW_TABLE_NONE; i = flow_table_newer(&old, i)) {
		const struct tcpf_flow *from = flow_table_record(&old, i);
		struct tcpf_flow *to;
		u32 index;

		if (surplus > 0) {
			surplus--;
			continue;
		}
		index = flow_table_insert(&m->flows, &from->entry.key, from->entry.hash);
		to = tcpf_flow(m, index);
		memcpy((u8 *)to + sizeof(to->entry), (const u8 *)from + sizeof(from->entry),
		       sizeof(*to) - sizeof(to->entry));
		to->place = TCPF_PASSIVE;
		if (from->place != TCPF_PASSIVE)
			tcpf_activate(m, index);
	}
}

/* A side has ended (r13). The list that ticks work off is where the flow waits to be forgotten. */
static inline void tcpf_end(struct tcpf_marker *m, u32 index, u8 ended, u64 now)
{
	struct tcpf_flow *f = tcpf_flow(m, index);
	bool was_closed = tcpf_is_closed(f);

	f->ended |= ended;
	if (was_closed || !tcpf_is_closed(f))
		return;
	f->closed = now;
	tcpf_activate(m, index);
}

#endif /* NET_TCPF_FLOWS_H */
