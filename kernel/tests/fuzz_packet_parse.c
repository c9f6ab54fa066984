// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz_packet_parse COUNT SEED: COUNT packets, mutated from good ones, through the parser and
 * through the marker behind it. Only the bytes that may be read are not poisoned. Beside what the
 * sanitizers see, it is checked that an answer is true of the packet, that it does not depend on
 * what lies around, and that reading less never changes what is understood.
 */
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>

#include <net/tcpf_marker.h>

#define MAX_PACKET 320
#define FLOWS 64
#define TOKENS 20000
#define INTERVAL 400000000ULL

static u8 arena[2 * MAX_PACKET] __attribute__((__aligned__(8)));
static struct tcpf_params params;
static struct tcpf_marker marker;
static u64 state, now;

/* xorshift64* (Vigna 2016) */
static u32 draw(u32 below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (u32)((state * 0x2545f4914f6cdd1dULL >> 32) * below >> 32);
}

static u8 draw_byte(void)
{
	static const u8 telling[] = { 0, 1, 2, 4, 5, 6, 8, 17, 43, 44, 51, 59, 60, 0x45, 0x50,
				      0x60, 0x7f, 0x80, 0xf0, 0xff };

	return draw(2) ? telling[draw(sizeof(telling))] : (u8)draw(256);
}

static void put16(u8 *at, u32 value)
{
	at[0] = (u8)(value >> 8);
	at[1] = (u8)value;
}

static void put32(u8 *at, u32 value)
{
	put16(at, value >> 16);
	put16(at + 2, value & 0xffff);
}

static u32 make_tcp(u8 *at)
{
	static const u8 flags[] = { 0x10, 0x10, 0x10, 0x10, 0x18, 2, 0x12, 0x11, 4, 0x14 };
	static const u8 options[] = { 2, 4, 5, 0xb4, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2 };
	u32 header = draw(2) ? 20 : 36;

	put32(at, draw(4) << 16 | 9);
	put32(at + 4, draw(8) ? draw(100) * 100 : 0xffffff00 + draw(512));
	put32(at + 8, draw(100) * 100);
	at[12] = (u8)(header << 2);
	at[13] = flags[draw(sizeof(flags))];
	memcpy(at + 20, options, header - 20);
	return header + draw(100);
}

static u32 make_ipv4(u8 *p)
{
	u32 header = draw(4) ? 20 : 20 + 4 * draw(11), len;

	p[9] = draw(8) ? 6 : draw_byte();
	len = header + make_tcp(p + header);
	p[0] = (u8)(0x40 | header / 4);
	put16(p + 2, len);
	if (!draw(16))
		put16(p + 6, draw(65536));
	put32(p + 12, draw(4));
	put32(p + 16, 99);
	return len;
}

static u32 make_ipv6(u8 *p)
{
	static const u8 kinds[] = { 0, 43, 44, 51, 60 };
	u32 at = 40, len, number = draw(2) ? 0 : draw(10);
	u8 *next = p + 6;

	while (number-- > 0) {
		u32 size = 8 * (1 + draw(2));

		*next = kinds[draw(sizeof(kinds))];
		if (*next == 44)
			size = 8;
		else
			p[at + 1] = (u8)(*next == 51 ? size / 4 - 2 : size / 8 - 1);
		next = p + at;
		at += size;
	}
	*next = 6;
	len = at + make_tcp(p + at);
	put32(p, 6U << 28 | draw(256) << 20);
	put16(p + 4, len - 40);
	p[8] = (u8)draw(4);
	return len;
}

/* A packet at the start of the arena; most of them damaged a little. Returns its length. */
static u32 make_packet(void)
{
	u32 len, damages = draw(4);

	memset(arena, 0, sizeof(arena));
	len = draw(2) ? make_ipv4(arena) : make_ipv6(arena);
	while (damages-- > 0)
		arena[draw(draw(2) ? 64 : len)] = draw_byte();
	if (!draw(8))
		len = draw(len + 1);
	if (!draw(16))
		len += draw(20);
	return len < MAX_PACKET ? len : MAX_PACKET;
}

static void demand(bool holds, const char *what, u64 input)
{
	if (holds)
		return;
	fprintf(stderr, "input %llu: %s\n", (unsigned long long)input, what);
	abort();
}

static enum packet_kind parse_at(struct packet_info *info, u32 at, u32 reach, u32 len)
{
	enum packet_kind kind;

	__asan_poison_memory_region(arena, sizeof(arena));
	__asan_unpoison_memory_region(arena + at, reach);
	kind = packet_parse(info, arena + at, reach, len);
	__asan_unpoison_memory_region(arena, sizeof(arena));
	return kind;
}

static void check_answer(enum packet_kind kind, const struct packet_info *info, u32 len, u64 input)
{
	u32 header = info->key.version == 4 ? 20 : 40;

	if (kind == PACKET_UNPARSEABLE)
		return;
	demand(info->key.version == arena[0] >> 4, "version", input);
	demand(info->len >= header && info->len <= len, "length", input);
	demand(info->dscp < 64, "codepoint", input);
	if (kind == PACKET_IP)
		return;
	demand(info->key.protocol == PACKET_PROTOCOL_TCP && !info->fragment, "TCP", input);
	demand(info->payload <= info->len - header - 20, "payload", input);
	demand(!info->mss || (info->flags & PACKET_TCP_SYN), "MSS", input);
}

/* The same packet somewhere else, among other bytes; then less of it. */
static void check_again(enum packet_kind kind, const struct packet_info *info, u32 len, u64 input)
{
	u8 copy[MAX_PACKET];
	struct packet_info other;
	u32 reach = draw(len + 1);
	enum packet_kind less;

	memcpy(copy, arena, len);
	memset(arena, 0xa5, sizeof(arena));
	memcpy(arena + 8, copy, len);
	demand(parse_at(&other, 8, len, len) == kind && !memcmp(&other, info, sizeof(other)),
	       "depends on its surroundings", input);
	less = parse_at(&other, 8, reach, len);
	demand(less == PACKET_UNPARSEABLE || (less == kind && !memcmp(&other, info, sizeof(other))),
	       "depends on how much is read", input);
}

static void feed_marker(enum packet_kind kind, const struct packet_info *info, u64 input)
{
	now += draw(64) ? draw(4000000) : (u64)draw(1000) * INTERVAL / 3;
	if (draw(3))
		demand((tcpf_mark(&params, &marker, kind, info, now) == TCPF_LEAVE) ==
			       (kind == PACKET_UNPARSEABLE), "marked or not", input);
	else
		tcpf_read_reverse(&params, &marker, kind, info, now);
	demand(marker.spare <= TOKENS && marker.pool <= TOKENS, "spare and pool", input);
	demand(marker.debt <= TOKENS / 2, "debt", input);
	demand(marker.active_count <= marker.flows.count && marker.flows.count <= FLOWS, "flows",
	       input);
}

int main(int argc, char **argv)
{
	u64 count = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, input, kinds[3] = { 0, 0, 0 };
	struct tcpf_room room;

	if (argc != 3 || count == 0) {
		fprintf(stderr, "usage: fuzz_packet_parse COUNT SEED\n");
		return 2;
	}
	state = strtoull(argv[2], NULL, 10) * 2 + 1;
	tcpf_set_params(&params, INTERVAL, TOKENS, false, false);
	tcpf_room_init(&room, calloc(1, tcpf_marker_bytes(FLOWS)), FLOWS);
	tcpf_marker_init(&marker, &params, &room, 1, now);
	for (input = 0; input < count; input++) {
		u32 len = make_packet();
		struct packet_info info;
		enum packet_kind kind = parse_at(&info, 0, len, len);

		check_answer(kind, &info, len, input);
		check_again(kind, &info, len, input);
		feed_marker(kind, &info, input);
		kinds[kind]++;
	}
	printf("%llu inputs: %llu TCP, %llu other, %llu unparseable\n", (unsigned long long)count,
	       (unsigned long long)kinds[PACKET_TCP], (unsigned long long)kinds[PACKET_IP],
	       (unsigned long long)kinds[PACKET_UNPARSEABLE]);
	free(marker.flows.records);
	return 0;
}
