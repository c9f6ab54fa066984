// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/packet_flow.h. */
#include "check.h"

#include <stdlib.h>

#include <net/packet_flow.h>

#define ROWS(rows) (sizeof(rows) / sizeof(*(rows)))

/* A plain TCP segment, AF11, 40 bytes of headers and 20 of payload. */
static const u8 segment[60] = {
	0x45, 0x28, 0, 60, 1, 2, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
	0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
};

/* The first reach bytes of it, in memory that ends there. */
static u8 *packet_of(const u8 *bytes, u32 reach)
{
	u8 *packet = malloc(reach ? reach : 1);

	memcpy(packet, bytes, reach);
	return packet;
}

static void a_plain_segment_is_read(void)
{
	static const u8 ports[4] = { 0x12, 0x34, 0, 80 };
	struct packet_plain plain;
	struct flow_key key;

	flow_key_ipv4(&key, 6, segment + 12);
	flow_key_ports(&key, ports);
	CHECK(packet_flow_plain(&plain, segment, 60));
	CHECK(flow_key_is_ipv4(&key, &plain.flow));
	CHECK_EQ(plain.dscp, 10);
}

static void what_is_not_plain_is_left(void)
{
	static const struct {
		u8 offset, value;
		u32 reach;
		bool plain;
	} rows[] = {
		{ 0, 0x45, 60, true },
		{ 0, 0x45, 28, true },
		{ 0, 0x45, 27, false },
		{ 0, 0x45, 0, false },
		{ 0, 0x46, 60, false },		/* options */
		{ 0, 0x44, 60, false },
		{ 0, 0x65, 60, false },		/* another version */
		{ 6, 0x80, 60, true },
		{ 6, 0x20, 60, false },		/* more fragments */
		{ 6, 0x10, 60, false },		/* a fragment's offset */
		{ 7, 1, 60, false },
		{ 9, 17, 60, true },
		{ 9, 1, 60, false },
		{ 32, 0x40, 60, true },		/* no header of TCP; its ports are there */
		{ 3, 20, 60, true },		/* nor is there room for one */
	};

	for (size_t i = 0; i < ROWS(rows); i++) {
		struct packet_plain plain;
		u8 bytes[60], *packet;

		ROW("row %zu", i);
		memcpy(bytes, segment, sizeof(bytes));
		bytes[rows[i].offset] = rows[i].value;
		packet = packet_of(bytes, rows[i].reach);
		CHECK_EQ(packet_flow_plain(&plain, packet, rows[i].reach), rows[i].plain);
		free(packet);
	}
}

/* Every value in every byte, then random ones in those that matter. */
static void on_good_packets_the_parser_says_the_same(void)
{
	static const u8 offsets[] = { 0, 1, 2, 3, 6, 7, 9, 20, 32, 33 };
	u64 state = 7, same = 0;

	for (u32 i = 0; i < 300000; i++) {
		struct packet_plain plain;
		struct packet_info info;
		u8 bytes[60], *packet;
		u32 reach;

		memcpy(bytes, segment, sizeof(bytes));
		if (i < 60 * 256)
			bytes[i / 256] = i;
		for (int changes = i % 4; changes && i >= 60 * 256; changes--) {
			state = state * 6364136223846793005ULL + 1442695040888963407ULL;
			bytes[offsets[(state >> 40) % ROWS(offsets)]] = state >> 56;
		}
		state = state * 6364136223846793005ULL + 1442695040888963407ULL;
		reach = state >> 63 ? 60 : (state >> 40) % 61;
		packet = packet_of(bytes, reach);
		if (packet_flow_plain(&plain, packet, reach) &&
		    packet_parse(&info, packet, reach, 60) != PACKET_UNPARSEABLE) {
			same++;
			CHECK(flow_key_is_ipv4(&info.key, &plain.flow));
			CHECK_EQ(plain.dscp, info.dscp);
		}
		free(packet);
	}
	CHECK(same > 30000);
}

int main(void)
{
	RUN(a_plain_segment_is_read);
	RUN(what_is_not_plain_is_left);
	RUN(on_good_packets_the_parser_says_the_same);
	return check_finish();
}
