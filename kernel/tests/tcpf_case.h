/* SPDX-License-Identifier: GPL-2.0 */
/* A TCP-friendly marker for table tests: it starts anew, flows have numbers, time is set. */
#ifndef TESTS_TCPF_CASE_H
#define TESTS_TCPF_CASE_H

#include <stdlib.h>

#include <net/tcpf_flows.h>

#include "check.h"

#define MS 1000000ULL
#define T0 (5000 * MS)
#define INTERVAL (400 * MS)

static struct tcpf_params params;
static struct tcpf_marker marker;

static inline void stop(void)
{
	free(marker.flows.records);
	memset(&marker, 0, sizeof(marker));
}

static inline struct tcpf_room new_room(u32 flows)
{
	struct tcpf_room room;

	tcpf_room_init(&room, calloc(1, tcpf_marker_bytes(flows)), flows);
	return room;
}

static inline void start(u32 tokens, bool paper, bool plain, u32 flows)
{
	struct tcpf_room room = new_room(flows);

	stop();
	tcpf_set_params(&params, INTERVAL, tokens, paper, plain);
	tcpf_marker_init(&marker, &params, &room, 1, T0);
}

static inline void set_key(struct flow_key *key, u32 flow)
{
	const u8 addresses[8] = { 10, 0, 0, 1, 10, (u8)(flow >> 16), (u8)(flow >> 8), (u8)flow };

	flow_key_ipv4(key, PACKET_PROTOCOL_TCP, addresses);
	flow_key_ports(key, "\1\2\3\4");
}

static inline u32 hash_of(u32 flow)
{
	struct flow_key key;

	set_key(&key, flow);
	return flow_key_hash(&marker.hash, &key);
}

/* The flow's index, without touching it. */
static inline u32 look_up(u32 flow)
{
	struct flow_key key;

	set_key(&key, flow);
	return flow_table_find(&marker.flows, &key, hash_of(flow));
}

static inline u32 find(u32 flow, u64 now)
{
	struct flow_key key;

	set_key(&key, flow);
	return tcpf_find(&marker, &key, hash_of(flow), now);
}

static inline u32 make(u32 flow, u32 seq, u64 now)
{
	struct packet_info info = { .seq = seq };

	set_key(&info.key, flow);
	return tcpf_new(&marker, &info, hash_of(flow), now);
}

static inline void note_handshake(u32 flow, u16 mss)
{
	struct flow_key key;

	set_key(&key, flow);
	tcpf_note_handshake(&marker, &key, hash_of(flow), mss);
}

/* Is each flow of the list where it says, and nobody else active? */
static inline void check_active(u32 expected)
{
	u32 i;

	CHECK_EQ(marker.active_count, expected);
	for (i = 0; i < marker.active_count; i++)
		CHECK_EQ(tcpf_flow(&marker, marker.active[i])->place, i);
}

#endif /* TESTS_TCPF_CASE_H */
