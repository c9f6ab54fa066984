// SPDX-License-Identifier: GPL-2.0
/* The TCP-friendly marker for Python: packets in, what was decided and the state of a flow out. */
#include <stdlib.h>

#include <net/tcpf_marker.h>

struct drive_packet {
	u64 now; /* ns */
	u32 flow; /* stands for its addresses */
	u32 seq;
	u32 ack_seq;
	u32 payload;
	u32 len;
	u16 mss;
	u8 flags;
	u8 kind; /* enum packet_kind */
	u8 reverse;
	u8 timestamps;
};

struct drive_flow {
	u64 window;
	u64 spacing;
	u64 count;
	s64 in_count;
	u32 snd_max;
	u32 una;
	u32 sent;
	u32 estimate;
	u32 demand;
	u32 mss;
	u32 tiny;
	u32 ticked;
};

struct drive_totals {
	u64 ticks;
	u64 evicted;
	u64 expired;
	u32 flows;
	u32 handshakes;
	u32 active;
	u32 tiny;
	u32 pool;
	u32 spare;
	u32 debt;
	u32 pad;
};

struct drive {
	struct tcpf_params params;
	struct tcpf_marker marker;
};

struct drive *drive_new(u64 interval, u32 tokens, bool paper, bool plain, u32 flows, u64 seed,
			u64 now)
{
	struct drive *d = calloc(1, sizeof(*d));
	struct tcpf_room room;

	tcpf_set_params(&d->params, interval, tokens, paper, plain);
	tcpf_room_init(&room, calloc(1, tcpf_marker_bytes(flows)), flows);
	tcpf_marker_init(&d->marker, &d->params, &room, seed, now);
	return d;
}

void drive_free(struct drive *d)
{
	free(d->marker.flows.records);
	free(d);
}

void drive_resize(struct drive *d, u32 flows)
{
	void *old = d->marker.flows.records;
	struct tcpf_room room;

	tcpf_room_init(&room, calloc(1, tcpf_marker_bytes(flows)), flows);
	tcpf_marker_resize(&d->marker, &room);
	free(old);
}

void drive_change(struct drive *d, u64 interval, u32 tokens, bool paper, bool plain, u64 now)
{
	struct tcpf_params to;

	tcpf_set_params(&to, interval, tokens, paper, plain);
	tcpf_marker_change(&d->params, &to, &d->marker, now);
}

static void drive_key(struct flow_key *key, u32 flow)
{
	const u8 addresses[8] = { 10, 0, 0, 1, (u8)(flow >> 24), (u8)(flow >> 16),
				  (u8)(flow >> 8), (u8)flow };
	const u8 ports[4] = { 0x30, 0x39, 0x13, 0x89 };

	flow_key_ipv4(key, PACKET_PROTOCOL_TCP, addresses);
	flow_key_ports(key, ports);
}

/* Why the packet was marked as it was: the counter that moved. Of the other direction: -1. */
int drive_step(struct drive *d, const struct drive_packet *packet)
{
	const struct tcpf_stats before = d->marker.stats;
	struct flow_key forward;
	struct packet_info info = {
		.len = packet->len,
		.seq = packet->seq,
		.ack_seq = packet->ack_seq,
		.payload = packet->payload,
		.mss = packet->mss,
		.flags = packet->flags,
		.timestamps = packet->timestamps,
	};
	int reason = 0;

	drive_key(&forward, packet->flow);
	if (packet->reverse) {
		flow_key_reverse(&info.key, &forward);
		tcpf_read_reverse(&d->params, &d->marker, packet->kind, &info, packet->now);
		return -1;
	}
	info.key = forward;
	tcpf_mark(&d->params, &d->marker, packet->kind, &info, packet->now);
	while (d->marker.stats.packets[reason] == before.packets[reason])
		reason++;
	return reason;
}

/* SYNs of so many flows from `first` on, all at one time. */
void drive_syns(struct drive *d, u32 first, u32 number, bool reverse, u64 now)
{
	struct drive_packet packet = {
		.now = now, .len = 60, .mss = 1460, .flags = PACKET_TCP_SYN, .kind = PACKET_TCP,
		.reverse = reverse,
	};

	for (packet.flow = first; packet.flow < first + number; packet.flow++)
		drive_step(d, &packet);
}

/* false: the flow is not known. */
bool drive_look(const struct drive *d, u32 flow, struct drive_flow *to)
{
	const struct tcpf_flow *f;
	struct flow_key key;
	u32 index;

	drive_key(&key, flow);
	index = flow_table_find(&d->marker.flows, &key, flow_key_hash(&d->marker.hash, &key));
	if (index == FLOW_TABLE_NONE)
		return false;
	f = tcpf_flow(&d->marker, index);
	*to = (struct drive_flow){
		.window = f->window,
		.spacing = f->spacing,
		.count = f->count,
		.in_count = f->in_count,
		.snd_max = f->snd_max,
		.una = f->una,
		.sent = f->sent,
		.estimate = f->estimate,
		.demand = f->demand,
		.mss = f->mss,
		.tiny = f->tiny,
		.ticked = f->ticked,
	};
	return true;
}

void drive_totals(const struct drive *d, struct drive_totals *to)
{
	const struct tcpf_marker *m = &d->marker;

	*to = (struct drive_totals){
		.ticks = m->stats.ticks,
		.evicted = m->stats.evicted,
		.expired = m->stats.expired,
		.flows = m->flows.count,
		.handshakes = m->handshakes.count,
		.active = m->active_count,
		.tiny = m->tiny_flows,
		.pool = m->pool,
		.spare = m->spare,
		.debt = m->debt,
	};
}

/* The level for max-min shares, and what they add up to. */
u32 drive_max_min(u64 capacity, const u32 *demands, u64 number, u32 *shares)
{
	static struct max_min level;
	u64 i;

	max_min_begin(&level, capacity);
	do {
		for (i = 0; i < number; i++)
			max_min_add(&level, demands[i]);
	} while (max_min_round(&level));
	for (i = 0; i < number; i++)
		shares[i] = max_min_share(&level, demands[i]);
	return level.level;
}
