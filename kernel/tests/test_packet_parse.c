// SPDX-License-Identifier: GPL-2.0
/*
 * Packets as they should be, cut at every length, and as they should not be. Each is parsed from a
 * block of exactly the bytes that may be read, so that the sanitizer sees one byte too many.
 */
#include <stdlib.h>

#include <net/packet_parse.h>

#include "check.h"

#define MAX_PACKET 2048

static u8 packet[MAX_PACKET];
static u32 length;

static struct packet_info info;

static void be16(u32 at, u16 value)
{
	packet[at] = (u8)(value >> 8);
	packet[at + 1] = (u8)value;
}

static void be32(u32 at, u32 value)
{
	be16(at, (u16)(value >> 16));
	be16(at + 2, (u16)value);
}

static void ipv4(u8 protocol, u32 header, u32 payload)
{
	static const u8 addresses[8] = { 10, 0, 0, 1, 10, 0, 0, 2 };

	memset(packet, 0, sizeof(packet));
	length = header + payload;
	packet[0] = (u8)(0x40 | header / 4);
	packet[1] = 10 << 2 | 3;
	be16(2, (u16)length);
	packet[9] = protocol;
	memcpy(packet + 12, addresses, 8);
}

static void ipv6(u8 protocol, u32 payload)
{
	u32 i;

	memset(packet, 0, sizeof(packet));
	length = 40 + payload;
	be32(0, 6U << 28 | (10 << 2 | 3) << 20 | 0xabcde);
	be16(4, (u16)payload);
	packet[6] = protocol;
	for (i = 0; i < 32; i++)
		packet[8 + i] = (u8)(i + 1);
}

/* A TCP header of so many bytes with ports 1 and 2. */
static void tcp(u32 at, u8 flags, u32 header)
{
	be16(at, 1);
	be16(at + 2, 2);
	be32(at + 4, 0xfffffff0);
	be32(at + 8, 0x01020304);
	packet[at + 12] = (u8)(header / 4 << 4);
	packet[at + 13] = flags;
}

static enum packet_kind parse_cut(u32 reach, u32 packet_len)
{
	u8 *block = reach > 0 ? malloc(reach) : NULL;
	enum packet_kind kind;

	if (reach > 0)
		memcpy(block, packet, reach);
	memset(&info, 0xee, sizeof(info));
	kind = packet_parse(&info, block, reach, packet_len);
	free(block);
	return kind;
}

static enum packet_kind parse(void)
{
	return parse_cut(length, length);
}

/* What a packet is when only a part of it can be read: nothing, up to `whole` bytes. */
static void check_every_cut(u32 whole, enum packet_kind kind)
{
	u32 reach;

	for (reach = 0; reach <= length; reach++) {
		ROW("reach %u", reach);
		CHECK_EQ(parse_cut(reach, length), reach < whole ? PACKET_UNPARSEABLE : kind);
	}
}

static void tcp_over_ipv4(void)
{
	struct flow_key key;

	ipv4(PACKET_PROTOCOL_TCP, 20, 20 + 1000);
	tcp(20, PACKET_TCP_ACK | 8, 20);
	CHECK_EQ(parse(), PACKET_TCP);
	CHECK_EQ(info.len, 1040);
	CHECK_EQ(info.payload, 1000);
	CHECK_EQ(info.seq, 0xfffffff0);
	CHECK_EQ(info.ack_seq, 0x01020304);
	CHECK_EQ(info.flags, PACKET_TCP_ACK | 8);
	CHECK_EQ(info.dscp, 10);
	CHECK_EQ(info.mss, 0);
	CHECK(!info.timestamps && !info.fragment);
	flow_key_ipv4(&key, PACKET_PROTOCOL_TCP, packet + 12);
	flow_key_ports(&key, packet + 20);
	CHECK(flow_key_equal(&key, &info.key));
	check_every_cut(40, PACKET_TCP);
}

static void tcp_over_ipv6(void)
{
	struct flow_key key;

	ipv6(PACKET_PROTOCOL_TCP, 20 + 7);
	tcp(40, PACKET_TCP_ACK | PACKET_TCP_FIN, 20);
	CHECK_EQ(parse(), PACKET_TCP);
	CHECK_EQ(info.len, 67);
	CHECK_EQ(info.payload, 7);
	CHECK_EQ(info.dscp, 10);
	CHECK_EQ(info.flags, PACKET_TCP_ACK | PACKET_TCP_FIN);
	flow_key_ipv6(&key, PACKET_PROTOCOL_TCP, packet + 8);
	flow_key_ports(&key, packet + 40);
	CHECK(flow_key_equal(&key, &info.key));
	check_every_cut(60, PACKET_TCP);
}

/* IPv4 options and the largest TCP header: the most that IPv4 needs. */
static void largest_ipv4(void)
{
	ipv4(PACKET_PROTOCOL_TCP, 60, 60 + 5);
	tcp(60, PACKET_TCP_ACK, 60);
	CHECK_EQ(parse(), PACKET_TCP);
	CHECK_EQ(info.payload, 5);
	check_every_cut(120, PACKET_TCP);
	CHECK(PACKET_PARSE_REACH >= 120);
}

/* Padding behind the packet is not payload; a packet longer than it can be is damaged. */
static void lengths(void)
{
	ipv4(PACKET_PROTOCOL_TCP, 20, 20);
	tcp(20, PACKET_TCP_ACK, 20);
	CHECK_EQ(parse_cut(46, 46), PACKET_TCP);
	CHECK_EQ(info.payload, 0);
	CHECK_EQ(info.len, 40);
	CHECK_EQ(parse_cut(39, 39), PACKET_UNPARSEABLE);
	be16(2, 19);
	CHECK_EQ(parse(), PACKET_UNPARSEABLE);
	be16(2, 39);
	CHECK_EQ(parse(), PACKET_UNPARSEABLE);
	ipv4(PACKET_PROTOCOL_TCP, 20, 20 + 1000);
	tcp(20, PACKET_TCP_ACK, 20);
	CHECK_EQ(parse_cut(1039, 1039), PACKET_UNPARSEABLE);
	CHECK_EQ(parse_cut(1039, 1040), PACKET_TCP);
	ipv4(1, 20, 10);
	CHECK_EQ(parse_cut(29, 29), PACKET_UNPARSEABLE);
	be16(2, 19);
	CHECK_EQ(parse_cut(30, 30), PACKET_UNPARSEABLE);
	ipv6(PACKET_PROTOCOL_TCP, 20);
	tcp(40, PACKET_TCP_ACK, 20);
	CHECK_EQ(parse_cut(64, 64), PACKET_TCP);
	CHECK_EQ(info.payload, 0);
	CHECK_EQ(parse_cut(59, 59), PACKET_UNPARSEABLE);
}

static void damaged(void)
{
	u32 version;

	ipv4(PACKET_PROTOCOL_TCP, 20, 40);
	tcp(20, PACKET_TCP_ACK, 20);
	for (version = 0; version < 16; version++) {
		ROW("version %u", version);
		packet[0] = (u8)(version << 4 | 5);
		CHECK_EQ(parse(), version == 4 ? PACKET_TCP : PACKET_UNPARSEABLE);
	}
	ipv6(PACKET_PROTOCOL_TCP, 20);
	tcp(40, PACKET_TCP_ACK, 20);
	for (version = 0; version < 16; version++) {
		ROW("version %u instead of 6", version);
		packet[0] = (u8)(version << 4);
		CHECK_EQ(parse(), version == 6 ? PACKET_TCP : PACKET_UNPARSEABLE);
	}
	ipv4(PACKET_PROTOCOL_TCP, 20, 40);
	tcp(20, PACKET_TCP_ACK, 20);
	ROW("header of 16 bytes");
	packet[0] = 0x44;
	CHECK_EQ(parse(), PACKET_UNPARSEABLE);
	packet[0] = 0x45;
	ROW("TCP header of 16 bytes");
	tcp(20, PACKET_TCP_ACK, 16);
	CHECK_EQ(parse(), PACKET_UNPARSEABLE);
	ROW("TCP header beyond the packet");
	tcp(20, PACKET_TCP_ACK, 44);
	CHECK_EQ(parse(), PACKET_UNPARSEABLE);
	ROW("TCP header as long as the packet");
	tcp(20, PACKET_TCP_ACK, 40);
	CHECK_EQ(parse(), PACKET_TCP);
	CHECK_EQ(info.payload, 0);
}

static void other_protocols(void)
{
	struct flow_key key;

	ipv4(PACKET_PROTOCOL_UDP, 20, 8);
	be16(20, 53);
	be16(22, 54);
	CHECK_EQ(parse(), PACKET_IP);
	flow_key_ipv4(&key, PACKET_PROTOCOL_UDP, packet + 12);
	flow_key_ports(&key, packet + 20);
	CHECK(flow_key_equal(&key, &info.key));
	CHECK_EQ(info.len, 28);
	check_every_cut(28, PACKET_IP);

	ipv4(1, 20, 3);
	CHECK_EQ(parse(), PACKET_IP);
	CHECK_EQ(info.key.protocol, 1);
	CHECK_EQ(info.key.source_port, 0);
	check_every_cut(20, PACKET_IP);

	ipv6(59, 0); /* no next header */
	CHECK_EQ(parse(), PACKET_IP);
	check_every_cut(40, PACKET_IP);
}

static void fragments_of_ipv4(void)
{
	static const struct {
		u16 word;
		bool fragment;
	} table[] = {
		{ 0, false },     { 0x4000, false }, /* do not fragment */
		{ 0x8000, false }, { 0x2000, true },  { 1, true }, { 0x1fff, true },
		{ 0x2001, true },
	};
	u32 row;

	ipv4(PACKET_PROTOCOL_TCP, 20, 20);
	tcp(20, PACKET_TCP_ACK, 20);
	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("flags and offset %#x", table[row].word);
		be16(6, table[row].word);
		CHECK_EQ(parse(), table[row].fragment ? PACKET_IP : PACKET_TCP);
		CHECK_EQ(info.fragment, table[row].fragment);
		CHECK_EQ(info.key.source_port != 0, !table[row].fragment);
		CHECK_EQ(info.dscp, 10);
	}
}

/* Puts an extension header at `at`; returns where the next one starts. */
static u32 extension(u32 at, u8 kind, u8 next, u32 size)
{
	packet[at] = next;
	if (kind == PACKET_PROTOCOL_AUTHENTICATION)
		packet[at + 1] = (u8)(size / 4 - 2);
	else if (kind != PACKET_PROTOCOL_FRAGMENT)
		packet[at + 1] = (u8)(size / 8 - 1);
	return at + size;
}

static void extensions(void)
{
	static const struct {
		u8 kind;
		u32 size;
	} table[] = {
		{ PACKET_PROTOCOL_HOP_BY_HOP, 8 },   { PACKET_PROTOCOL_HOP_BY_HOP, 48 },
		{ PACKET_PROTOCOL_DESTINATION, 16 }, { PACKET_PROTOCOL_ROUTING, 24 },
		{ PACKET_PROTOCOL_AUTHENTICATION, 24 }, { PACKET_PROTOCOL_FRAGMENT, 8 },
	};
	u32 row, at;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ipv6(table[row].kind, table[row].size + 20 + 9);
		at = extension(40, table[row].kind, PACKET_PROTOCOL_TCP, table[row].size);
		tcp(at, PACKET_TCP_ACK, 20);
		ROW("row %u", row);
		CHECK_EQ(parse(), PACKET_TCP);
		CHECK_EQ(info.payload, 9);
		CHECK_EQ(info.key.protocol, PACKET_PROTOCOL_TCP);
		check_every_cut(at + 20, PACKET_TCP);
	}
}

static void chains(void)
{
	u32 number, at, i;

	for (number = 0; number <= PACKET_EXTENSIONS_MAX + 1; number++) {
		u8 kind = PACKET_PROTOCOL_DESTINATION;

		ipv6(number ? kind : PACKET_PROTOCOL_TCP, number * 8 + 20);
		for (i = 0, at = 40; i < number; i++)
			at = extension(at, kind, i + 1 < number ? kind : PACKET_PROTOCOL_TCP, 8);
		tcp(at, PACKET_TCP_ACK, 20);
		ROW("%u headers", number);
		CHECK_EQ(parse(),
			 number > PACKET_EXTENSIONS_MAX ? PACKET_UNPARSEABLE : PACKET_TCP);
	}
	ROW("a header beyond the packet");
	ipv6(PACKET_PROTOCOL_ROUTING, 16);
	extension(40, PACKET_PROTOCOL_ROUTING, PACKET_PROTOCOL_TCP, 24);
	CHECK_EQ(parse(), PACKET_UNPARSEABLE);
	ROW("a jumbogram");
	ipv6(PACKET_PROTOCOL_HOP_BY_HOP, 100);
	be16(4, 0);
	CHECK_EQ(parse(), PACKET_UNPARSEABLE);
}

static void fragments_of_ipv6(void)
{
	static const struct {
		u16 word;
		bool fragment;
	} table[] = {
		{ 0, false }, { 6, false } /* reserved bits */, { 1, true }, { 8, true },
		{ 0xfff9, true },
	};
	u32 row;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("offset and flag %#x", table[row].word);
		ipv6(PACKET_PROTOCOL_FRAGMENT, 8 + 20);
		extension(40, PACKET_PROTOCOL_FRAGMENT, PACKET_PROTOCOL_TCP, 8);
		be16(42, table[row].word);
		tcp(48, PACKET_TCP_ACK, 20);
		CHECK_EQ(parse(), table[row].fragment ? PACKET_IP : PACKET_TCP);
		CHECK_EQ(info.fragment, table[row].fragment);
		CHECK_EQ(info.key.protocol, PACKET_PROTOCOL_TCP);
		/* what follows a fragment's header is not a header where it is not the first */
		extension(40, PACKET_PROTOCOL_FRAGMENT, PACKET_PROTOCOL_DESTINATION, 8);
		packet[48] = PACKET_PROTOCOL_TCP;
		packet[49] = 200;
		CHECK_EQ(parse(), table[row].fragment ? PACKET_IP : PACKET_UNPARSEABLE);
	}
}

#define SYN PACKET_TCP_SYN

static void options(void)
{
	static const struct {
		const char *name;
		u8 flags;
		u8 options[12];
		u16 mss;
		bool timestamps;
	} table[] = {
		{ "mss", SYN, { 2, 4, 0x05, 0xb4 }, 1460, false },
		{ "mss, no SYN", PACKET_TCP_ACK, { 2, 4, 0x05, 0xb4 }, 0, false },
		{ "mss of another size", SYN, { 2, 3, 0x05, 2, 4, 1, 2 }, 258, false },
		{ "timestamps", PACKET_TCP_ACK, { 1, 1, 8, 10, 0 }, 0, true },
		{ "timestamps of another size", PACKET_TCP_ACK, { 8, 9, 0 }, 0, false },
		{ "unknown, then mss", SYN, { 253, 5, 0, 0, 0, 2, 4, 1, 0 }, 256, false },
		{ "the shortest, then mss", SYN, { 4, 2, 2, 4, 1, 0 }, 256, false },
		{ "mss behind the end", SYN, { 0, 2, 4, 1, 0 }, 0, false },
		{ "length 0", SYN, { 3, 0, 2, 4, 1, 0 }, 0, false },
		{ "length 1", SYN, { 3, 1, 2, 4, 1, 0 }, 0, false },
		{ "beyond the header", SYN, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 1 }, 0,
		  false },
		{ "no room for a length", SYN, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2 }, 0,
		  false },
		{ "as long as the header", SYN, { 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 1, 1 }, 257,
		  false },
	};
	u32 row;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("%s", table[row].name);
		ipv4(PACKET_PROTOCOL_TCP, 20, 32);
		tcp(20, table[row].flags, 32);
		memcpy(packet + 40, table[row].options, 12);
		CHECK_EQ(parse(), PACKET_TCP);
		CHECK_EQ(info.mss, table[row].mss);
		CHECK_EQ(info.timestamps, table[row].timestamps);
		CHECK_EQ(info.payload, 0);
	}
}

int main(void)
{
	RUN(tcp_over_ipv4);
	RUN(tcp_over_ipv6);
	RUN(largest_ipv4);
	RUN(lengths);
	RUN(damaged);
	RUN(other_protocols);
	RUN(fragments_of_ipv4);
	RUN(extensions);
	RUN(chains);
	RUN(fragments_of_ipv6);
	RUN(options);
	return check_finish();
}
