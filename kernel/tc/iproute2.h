/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a plugin of tc needs to know of tc, which installs no headers: the
 * structures that tc looks up in a plugin and the functions that it exports to
 * it. As in iproute2 5.9 to 6.15; a plugin finds these in the program that
 * loads it, so nothing is linked. The same for ip, of iproute2 6.1 or later.
 *
 * tc looks for q_KIND.so with the symbol KIND_qdisc_util and for m_KIND.so with
 * KIND_action_util in the directory that TC_LIB_DIR names, ip for link_KIND.so
 * with KIND_link_util in that of IP_LIB_DIR.
 */
#ifndef TC_IPROUTE2_H
#define TC_IPROUTE2_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdnoreturn.h>
#include <string.h>

#include <linux/gen_stats.h>
#include <linux/netlink.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

/* ------------------------------------------------- what a plugin provides */

#define FILTER_NAMESZ	16

struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse_qopt)(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n,
			  const char *dev);
	int (*print_qopt)(struct qdisc_util *qu, FILE *f, struct rtattr *opt);
	int (*print_xstats)(struct qdisc_util *qu, FILE *f, struct rtattr *xstats);
	int (*parse_copt)(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n,
			  const char *dev);
	int (*print_copt)(struct qdisc_util *qu, FILE *f, struct rtattr *opt);
	int (*has_block)(struct qdisc_util *qu, struct rtattr *opt, __u32 block_idx, bool *p_has);
};

struct action_util {
	struct action_util *next;
	char id[FILTER_NAMESZ];
	int (*parse_aopt)(struct action_util *a, int *argc, char ***argv, int code,
			  struct nlmsghdr *n);
	int (*print_aopt)(struct action_util *a, FILE *f, struct rtattr *opt);
	int (*print_xstats)(struct action_util *a, FILE *f, struct rtattr *xstats);
};

struct link_util {
	struct link_util *next;
	const char *id;
	int maxattr;
	/* Later versions have a fifth argument: behind those, so that it may be left out. */
	int (*parse_opt)(struct link_util *lu, int argc, char **argv, struct nlmsghdr *n);
	void (*print_opt)(struct link_util *lu, FILE *f, struct rtattr *tb[]);
	void (*print_xstats)(struct link_util *lu, FILE *f, struct rtattr *xstats);
	void (*print_help)(struct link_util *lu, int argc, char **argv, FILE *f);
	int (*parse_ifla_xstats)(struct link_util *lu, int argc, char **argv);
	int (*print_ifla_xstats)(struct nlmsghdr *n, void *arg);
};

/* --------------------------------------------------------- reading words */

noreturn void invarg(const char *message, const char *word);
noreturn void missarg(const char *key);
noreturn void duparg(const char *key, const char *word);

/* These return 0 if the word is well formed. */
int get_u8(__u8 *value, const char *word, int base);
int get_u16(__u16 *value, const char *word, int base);
int get_u32(__u32 *value, const char *word, int base);
int get_u64(__u64 *value, const char *word, int base);
int get_size(unsigned int *bytes, const char *word);
int get_rate64(__u64 *bytes_per_second, const char *word);
int get_time64(__s64 *ns, const char *word);

/* Read "pass", "continue" ... if that is what stands next, else give the default. */
void parse_action_control_dflt(int *argc_p, char ***argv_p, int *result_p, bool allow_num,
			       int default_result);

/* ------------------------------------------------------ netlink messages */

#define MAX_MSG	16384	/* what tc's message buffer holds */

int addattr8(struct nlmsghdr *n, int maxlen, int type, __u8 value);
int addattr16(struct nlmsghdr *n, int maxlen, int type, __u16 value);
int addattr32(struct nlmsghdr *n, int maxlen, int type, __u32 value);
int addattr64(struct nlmsghdr *n, int maxlen, int type, __u64 value);
int addattr_l(struct nlmsghdr *n, int maxlen, int type, const void *data, int length);
struct rtattr *addattr_nest(struct nlmsghdr *n, int maxlen, int type);
int addattr_nest_end(struct nlmsghdr *n, struct rtattr *nest);
int parse_rtattr(struct rtattr *tb[], int max, struct rtattr *rta, int length);

static inline void parse_rtattr_nested(struct rtattr *tb[], int max, struct rtattr *nest)
{
	parse_rtattr(tb, max, RTA_DATA(nest), RTA_PAYLOAD(nest));
}

static inline __u8 rta_getattr_u8(const struct rtattr *rta)
{
	return *(const __u8 *)RTA_DATA(rta);
}

static inline __u32 rta_getattr_u32(const struct rtattr *rta)
{
	return *(const __u32 *)RTA_DATA(rta);
}

static inline __u64 rta_getattr_u64(const struct rtattr *rta)
{
	__u64 value;	/* attributes are aligned to 4 bytes alone */

	memcpy(&value, RTA_DATA(rta), sizeof(value));
	return value;
}

/* --------------------------------------------------------- printing, JSON */

extern int show_stats;
extern int show_details;
extern const char *_SL_;

enum output_type {
	PRINT_FP = 1,		/* only as text */
	PRINT_JSON = 2,		/* only as JSON */
	PRINT_ANY = 4,
};

enum color_attr {
	COLOR_NONE = 6,
};

bool is_json_context(void);
void open_json_object(const char *key);
void close_json_object(void);
void open_json_array(enum output_type type, const char *key);
void close_json_array(enum output_type type, const char *key);
void print_nl(void);

#define PRINT_FUNCTION(name, value_type)						\
	int print_color_##name(enum output_type type, enum color_attr color,		\
			       const char *key, const char *format, value_type value)

PRINT_FUNCTION(int, int);
PRINT_FUNCTION(uint, unsigned int);
PRINT_FUNCTION(u64, uint64_t);
PRINT_FUNCTION(s64, int64_t);
PRINT_FUNCTION(bool, bool);
PRINT_FUNCTION(on_off, bool);
PRINT_FUNCTION(string, const char *);
PRINT_FUNCTION(float, double);
/* As text with a unit (%s), as JSON a number of bytes. */
PRINT_FUNCTION(size, __u32);

/* print_TYPE(type, key of the JSON member, format of the text, value) */
#define print_int(type, ...)	print_color_int(type, COLOR_NONE, __VA_ARGS__)
#define print_uint(type, ...)	print_color_uint(type, COLOR_NONE, __VA_ARGS__)
#define print_u64(type, ...)	print_color_u64(type, COLOR_NONE, __VA_ARGS__)
#define print_s64(type, ...)	print_color_s64(type, COLOR_NONE, __VA_ARGS__)
#define print_bool(type, ...)	print_color_bool(type, COLOR_NONE, __VA_ARGS__)
#define print_on_off(type, ...)	print_color_on_off(type, COLOR_NONE, __VA_ARGS__)
#define print_string(type, ...)	print_color_string(type, COLOR_NONE, __VA_ARGS__)
#define print_float(type, ...)	print_color_float(type, COLOR_NONE, __VA_ARGS__)
#define print_size(type, ...)	print_color_size(type, COLOR_NONE, __VA_ARGS__)

/* As text with a unit (%s), as JSON a number of bytes/s. */
void tc_print_rate(enum output_type type, const char *key, const char *format,
		   unsigned long long rate);
void print_action_control(FILE *f, const char *prefix, int action, const char *suffix);
void print_tm(FILE *f, const struct tcf_t *tm);

#endif /* TC_IPROUTE2_H */
