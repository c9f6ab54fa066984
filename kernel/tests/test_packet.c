// SPDX-License-Identifier: GPL-2.0
/* Table tests of sched/packet.h: headers wherever they lie, codepoints and the sums over them. */
#include <stdlib.h>

#include "check.h"

#include "../sched/packet.h"

#define LINK 14
#define BYTES 100	/* of IP */

/* The IP header is aligned, as the kernel sees to. */
static u8 memory[2 + LINK + BYTES] __attribute__((aligned(4)));
static u8 *const packet = memory + 2;

/* IPv4 or IPv6 with UDP behind a link-layer header, an odd number of bytes in it. */
static void make(u8 version, u8 dsfield)
{
	u8 *ip = packet + LINK;
	u32 i, sum = 0;

	for (i = 0; i < LINK + BYTES; i++)
		packet[i] = (u8)(31 * i + 7);
	if (version == 6) {
		memcpy(ip, "\x60\x01\x23\x45\x00\x3c\x11\x40", 8);	/* 60 bytes follow */
		ip[0] |= dsfield >> 4;
		ip[1] |= (u8)(dsfield << 4);
		return;
	}
	memcpy(ip, "\x45\x00\x00\x64\x00\x07\x00\x00\x40\x11\x00\x00", 12);
	ip[1] = dsfield;
	for (i = 0; i < 20; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip[10] = (u8)(~sum >> 8);
	ip[11] = (u8)~sum;
}

/* The ones' complement sum as it would have to be, folded. */
static u16 sum_of(const u8 *p, u32 bytes)
{
	u64 sum = 0;

	for (u32 i = 0; i + 1 < bytes; i += 2)
		sum += *(const u16 *)(p + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (u16)sum;
}

static u16 folded(__wsum csum)
{
	u32 sum = (csum & 0xffff) + (csum >> 16);

	return (u16)((sum & 0xffff) + (sum >> 16));
}

static struct sk_buff skb_of(u8 version, bool at_link)
{
	return (struct sk_buff){
		.data = packet + (at_link ? 0 : LINK),
		.linear = BYTES + (at_link ? LINK : 0),
		.len = BYTES + (at_link ? LINK : 0),
		.network_offset = at_link ? LINK : 0,
		.protocol = htons(version == 4 ? ETH_P_IP : ETH_P_IPV6),
	};
}

/* The parts of a packet in memory of their own: the sanitizer guards the ends of both. */
static void wherever_the_header_lies(void)
{
	for (u8 version = 4; version <= 6; version += 2) {
		for (u32 linear = 0; linear <= LINK + BYTES; linear++) {
			struct sk_buff skb = skb_of(version, true);
			u8 *head = malloc(linear + !linear);
			u8 *rest = malloc(LINK + BYTES - linear + 1);
			struct packet_info info;

			ROW("version %d, %u bytes linear", version, linear);
			make(version, 10 << 2);
			memcpy(head, packet, linear);
			memcpy(rest, packet + linear, LINK + BYTES - linear);
			skb.data = head;
			skb.linear = linear;
			skb.rest = rest;
			CHECK_EQ(packet_read(&skb, &info), PACKET_IP);
			CHECK_EQ(info.dscp, 10);
			CHECK_EQ(info.len, BYTES);
			CHECK_EQ(info.key.version, version);
			CHECK_EQ(info.key.protocol, 17);
			free(head);
			free(rest);
		}
	}
}

static void what_is_not_what_the_link_layer_says(void)
{
	static const struct {
		u8 version;
		u16 protocol;
		int offset;
		u32 len;
		enum packet_kind kind;
	} rows[] = {
		{ 4, ETH_P_IP, LINK, LINK + BYTES, PACKET_IP },
		{ 6, ETH_P_IPV6, LINK, LINK + BYTES, PACKET_IP },
		{ 4, ETH_P_IPV6, LINK, LINK + BYTES, PACKET_UNPARSEABLE },
		{ 6, ETH_P_IP, LINK, LINK + BYTES, PACKET_UNPARSEABLE },
		{ 4, ETH_P_8021Q, LINK, LINK + BYTES, PACKET_UNPARSEABLE },
		{ 4, 0, LINK, LINK + BYTES, PACKET_UNPARSEABLE },
		{ 4, ETH_P_IP, LINK, LINK + BYTES - 1, PACKET_UNPARSEABLE },	/* cut off */
		{ 4, ETH_P_IP, LINK, LINK + 1, PACKET_UNPARSEABLE },
		{ 4, ETH_P_IP, LINK, LINK, PACKET_UNPARSEABLE },	/* nothing is there */
		{ 4, ETH_P_IP, -1, LINK + BYTES, PACKET_UNPARSEABLE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sk_buff skb = skb_of(rows[i].version, true);
		struct packet_info info;

		ROW("row %zu", i);
		make(rows[i].version, 0);
		skb.protocol = htons(rows[i].protocol);
		skb.network_offset = rows[i].offset;
		skb.len = rows[i].len;
		skb.linear = rows[i].len;
		CHECK_EQ(packet_read(&skb, &info), rows[i].kind);
		if (rows[i].kind == PACKET_UNPARSEABLE)
			CHECK_EQ(info.key.version, 0);
	}
}

/* Every codepoint by every other, ECN's bits as they come; nothing else of the packet moves. */
static void every_codepoint_by_every_other(void)
{
	for (u32 i = 0; i < 2 * 2 * 256 * 64; i++) {
		u8 version = i & 1 ? 6 : 4, dsfield = (u8)(i >> 2), dscp = (u8)(i >> 10);
		struct sk_buff skb = skb_of(version, i & 2);
		struct packet_info info;
		u8 marked[LINK + BYTES];

		ROW("version %d, field %d, codepoint %d", version, dsfield, dscp);
		make(version, dsfield);
		skb.ip_summed = CHECKSUM_COMPLETE;
		/* any of the forms that the sum may have */
		skb.csum = csum_add(sum_of(packet + LINK, BYTES),
				    0xffff0000 - (i << 16) + (i & 0xffff));
		skb.csum = csum_sub(skb.csum, i & 0xffff);
		skb.csum = csum_add(skb.csum, i << 16 | 0xffff);
		packet_read(&skb, &info);
		CHECK_EQ(info.dscp, dsfield >> 2);
		CHECK(packet_set_dscp(&skb, &info, dscp));
		CHECK_EQ(folded(skb.csum) % 0xffff, sum_of(packet + LINK, BYTES) % 0xffff);
		if (version == 4)
			CHECK_EQ(sum_of(packet + LINK, 20), 0xffff);

		memcpy(marked, packet, LINK + BYTES);
		make(version, (u8)(dscp << 2 | (dsfield & 3)));
		if (version == 4)
			memcpy(packet + LINK + 10, marked + LINK + 10, 2);
		CHECK(!memcmp(marked, packet, LINK + BYTES));
	}
}

static void what_needs_no_sum_has_none(void)
{
	struct sk_buff skb = skb_of(6, true);
	struct packet_info info;

	make(6, 0);
	skb.csum = 5;
	packet_read(&skb, &info);
	CHECK(packet_set_dscp(&skb, &info, 10));
	CHECK_EQ(skb.csum, 5);
}

static void without_memory_nothing_is_written(void)
{
	for (u8 version = 4; version <= 6; version += 2) {
		struct sk_buff skb = skb_of(version, true);
		u8 before[LINK + BYTES];
		struct packet_info info;

		ROW("version %d", version);
		make(version, 0);
		memcpy(before, packet, LINK + BYTES);
		skb.no_memory = true;
		packet_read(&skb, &info);
		CHECK(!packet_set_dscp(&skb, &info, 10));
		CHECK(packet_set_dscp(&skb, &info, 0));	/* nothing needs to be written */
		CHECK(!memcmp(before, packet, LINK + BYTES));
	}
}

int main(void)
{
	RUN(wherever_the_header_lies);
	RUN(what_is_not_what_the_link_layer_says);
	RUN(every_codepoint_by_every_other);
	RUN(what_needs_no_sum_has_none);
	RUN(without_memory_nothing_is_written);
	return check_finish();
}
