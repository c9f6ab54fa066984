/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the algorithm headers use of the kernel, in user space: the Makefile has it included first,
 * and makes an empty file of each name in `include` that user space has no header for.
 */
#ifndef TESTS_KERNEL_H
#define TESTS_KERNEL_H

#include <arpa/inet.h>
#include <asm/byteorder.h>
#include <limits.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/limits.h>
#include <linux/stddef.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* <linux/compiler.h> */

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define fallthrough __attribute__((__fallthrough__))
#define noinline __attribute__((__noinline__))
/* libc's <sys/cdefs.h> has one that wants another "inline" after it. */
#undef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#define __maybe_unused __attribute__((__unused__))
#define __packed __attribute__((__packed__))
#define READ_ONCE(variable) (*(const volatile __typeof__(variable) *)&(variable))
#define WRITE_ONCE(variable, value) (*(volatile __typeof__(variable) *)&(variable) = (value))

/* <linux/types.h> */

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

/* <asm/byteorder.h> */

#define cpu_to_be16 __cpu_to_be16
#define cpu_to_be32 __cpu_to_be32
#define cpu_to_be64 __cpu_to_be64
#define be16_to_cpu __be16_to_cpu
#define be32_to_cpu __be32_to_cpu
#define be64_to_cpu __be64_to_cpu
#define cpu_to_le32 __cpu_to_le32
#define le32_to_cpu __le32_to_cpu
#define be16_to_cpup __be16_to_cpup
#define be32_to_cpup __be32_to_cpup

/* <linux/bits.h> */

#define BITS_PER_LONG 64
#define BITS_PER_LONG_LONG 64
#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define GENMASK(high, low) (((~0UL) << (low)) & (~0UL >> (BITS_PER_LONG - 1 - (high))))
#define GENMASK_ULL(high, low) (((~0ULL) << (low)) & (~0ULL >> (BITS_PER_LONG_LONG - 1 - (high))))

/* <linux/bitops.h> */

static inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static inline u32 rol32(u32 word, unsigned int shift)
{
	return (word << (shift & 31)) | (word >> ((-shift) & 31));
}

static inline u64 rol64(u64 word, unsigned int shift)
{
	return (word << (shift & 63)) | (word >> ((-shift) & 63));
}

static inline u32 ror32(u32 word, unsigned int shift)
{
	return rol32(word, -shift);
}

/* <linux/limits.h> */

#define U8_MAX ((u8)~0U)
#define U16_MAX ((u16)~0U)
#define U32_MAX ((u32)~0U)
#define U64_MAX ((u64)~0ULL)
#define S8_MAX ((s8)(U8_MAX >> 1))
#define S16_MAX ((s16)(U16_MAX >> 1))
#define S32_MAX ((s32)(U32_MAX >> 1))
#define S32_MIN ((s32)(-S32_MAX - 1))
#define S64_MAX ((s64)(U64_MAX >> 1))
#define S64_MIN ((s64)(-S64_MAX - 1))

/* <linux/log2.h> */

static inline bool is_power_of_2(unsigned long n)
{
	return n && !(n & (n - 1));
}

static inline int ilog2(u64 n)
{
	return fls64(n) - 1;
}

static inline unsigned long roundup_pow_of_two(unsigned long n)
{
	return 1UL << fls64(n - 1);
}

static inline unsigned long rounddown_pow_of_two(unsigned long n)
{
	return 1UL << ilog2(n);
}

/* <linux/math.h> */

#define DIV_ROUND_UP(dividend, divisor) (((dividend) + (divisor) - 1) / (divisor))
#define round_up(value, power_of_two) ((((value) - 1) | ((power_of_two) - 1)) + 1)
#define round_down(value, power_of_two) ((value) & ~((power_of_two) - 1))
#define abs_diff(a, b) ((a) > (b) ? (a) - (b) : (b) - (a))

/* <linux/math64.h> */

static inline u64 div_u64_rem(u64 dividend, u32 divisor, u32 *remainder)
{
	*remainder = (u32)(dividend % divisor);
	return dividend / divisor;
}

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static inline s64 div_s64(s64 dividend, s32 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64_rem(u64 dividend, u64 divisor, u64 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline s64 div64_s64(s64 dividend, s64 divisor)
{
	return dividend / divisor;
}

static inline u64 mul_u32_u32(u32 a, u32 b)
{
	return (u64)a * b;
}

static inline u64 mul_u64_u32_shr(u64 a, u32 mul, unsigned int shift)
{
	return (u64)(((unsigned __int128)a * mul) >> shift);
}

static inline u64 mul_u64_u64_shr(u64 a, u64 mul, unsigned int shift)
{
	return (u64)(((unsigned __int128)a * mul) >> shift);
}

static inline u64 mul_u64_u32_div(u64 a, u32 mul, u32 divisor)
{
	return (u64)((unsigned __int128)a * mul / divisor);
}

static inline u64 mul_u64_u64_div_u64(u64 a, u64 mul, u64 divisor)
{
	return (u64)((unsigned __int128)a * mul / divisor);
}

/* <linux/minmax.h> */

/* As in the kernel, min() and max() want both sides of one type; min_t() and max_t() convert. */
#define min(a, b)						\
	({							\
		__typeof__(a) min_a_ = (a);			\
		__typeof__(b) min_b_ = (b);			\
		(void)(&min_a_ == &min_b_);			\
		min_a_ < min_b_ ? min_a_ : min_b_;		\
	})

#define max(a, b)						\
	({							\
		__typeof__(a) max_a_ = (a);			\
		__typeof__(b) max_b_ = (b);			\
		(void)(&max_a_ == &max_b_);			\
		max_a_ > max_b_ ? max_a_ : max_b_;		\
	})

#define min_t(type, a, b)					\
	({							\
		type min_t_a_ = (a);				\
		type min_t_b_ = (b);				\
		min_t_a_ < min_t_b_ ? min_t_a_ : min_t_b_;	\
	})

#define max_t(type, a, b)					\
	({							\
		type max_t_a_ = (a);				\
		type max_t_b_ = (b);				\
		max_t_a_ > max_t_b_ ? max_t_a_ : max_t_b_;	\
	})

#define clamp_t(type, value, low, high) min_t(type, max_t(type, value, low), high)
#define clamp(value, low, high) clamp_t(__typeof__(value), value, low, high)

#define swap(a, b)						\
	do {							\
		__typeof__(a) swap_ = (a);			\
		(a) = (b);					\
		(b) = swap_;					\
	} while (0)

/* <linux/overflow.h> */

#define check_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)
#define check_sub_overflow(a, b, difference) __builtin_sub_overflow(a, b, difference)
#define check_mul_overflow(a, b, product) __builtin_mul_overflow(a, b, product)

/* <linux/stddef.h> */

#define sizeof_field(type, member) sizeof(((type *)0)->member)

/* <linux/kernel.h> */

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(pointer, type, member) \
	((type *)((char *)(pointer) - offsetof(type, member)))

/* <net/checksum.h> */

#ifndef __force
#define __force
#endif

static inline __wsum csum_add(__wsum a, __wsum b)
{
	u64 sum = (u64)a + b;

	return (u32)sum + (u32)(sum >> 32);
}

static inline __wsum csum_sub(__wsum a, __wsum b)
{
	return csum_add(a, ~b);
}

/* <net/dsfield.h> */
/* The kernel's own are used in a guest, on real frames; these do the same from the definitions. */

/* RFC 1624, equation 3: HC' = ~(~HC + ~m + m') */
static inline void ipv4_change_dsfield(struct iphdr *ip, u8 mask, u8 value)
{
	u8 to = (ip->tos & mask) | value;
	u32 sum = (u16)~ntohs(ip->check) + (u16)~(u16)ip->tos + to;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = htons((u16)~sum);
	ip->tos = to;
}

static inline void ipv6_change_dsfield(struct ipv6hdr *ip, u8 mask, u8 value)
{
	u8 *byte = (u8 *)ip;
	u8 class = (u8)(byte[0] << 4 | byte[1] >> 4);

	class = (class & mask) | value;
	byte[0] = (byte[0] & 0xf0) | class >> 4;
	byte[1] = (byte[1] & 0x0f) | (u8)(class << 4);
}

/* <net/inet_ecn.h> */

#define INET_ECN_MASK 3

/* <linux/skbuff.h> */
/* As much of an skb as sched/packet.h needs: a linear part, and what lies behind it elsewhere. */

#define CHECKSUM_NONE 0
#define CHECKSUM_COMPLETE 2

struct sk_buff {
	u8 *data;
	u32 linear;		/* bytes at data */
	const u8 *rest;		/* len - linear bytes */
	u32 len;
	int network_offset;	/* from data */
	__be16 protocol;
	u8 ip_summed;
	__wsum csum;
	bool no_memory;		/* the header cannot be made writable */
};

static inline int skb_network_offset(const struct sk_buff *skb)
{
	return skb->network_offset;
}

static inline struct iphdr *ip_hdr(const struct sk_buff *skb)
{
	return (struct iphdr *)(skb->data + skb->network_offset);
}

static inline struct ipv6hdr *ipv6_hdr(const struct sk_buff *skb)
{
	return (struct ipv6hdr *)(skb->data + skb->network_offset);
}

static inline void *skb_header_pointer(const struct sk_buff *skb, int offset, int len, void *buffer)
{
	if (offset + len <= (int)skb->linear)
		return skb->data + offset;
	if (offset + len > (int)skb->len)
		return NULL;
	for (int i = 0; i < len; i++) {
		u32 at = offset + i;

		((u8 *)buffer)[i] = at < skb->linear ? skb->data[at] : skb->rest[at - skb->linear];
	}
	return buffer;
}

/* What is to be written must be linear afterwards: nothing else may be written to. */
static inline int skb_ensure_writable(struct sk_buff *skb, unsigned int bytes)
{
	return skb->no_memory || bytes > skb->linear ? -12 : 0;
}

#endif /* TESTS_KERNEL_H */
