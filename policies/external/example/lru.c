// LRU over the protocol of ../PROTOCOL.md: cc -O2 -o lru lru.c, then --policy exec:./lru.
// Blocks outside the demand are a list in the order of their last use. The arrays next and before
// hold the list, and place 0 is its end. Block x has place x + 1. Numbers are little-endian, as on
// x86 and Arm.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t *next, *before;

static void append(int32_t place) {
	int32_t last = before[0];
	next[last] = place, before[place] = last;
	next[place] = 0, before[0] = place;
}

static void unlink_place(int32_t place) {
	next[before[place]] = next[place];
	before[next[place]] = before[place];
}

static void answer(char type, const void *content, uint32_t length) {
	uint32_t total = length + 1;
	fwrite(&total, 4, 1, stdout);
	fputc(type, stdout);
	fwrite(content, 1, length, stdout);
	fflush(stdout);
}

static void fail(const char *why) {
	fprintf(stderr, "lru: %s\n", why);
	exit(1);
}

int main(void) {
	uint32_t length, room = 0;
	char *content = NULL;
	setvbuf(stdin, NULL, _IOFBF, 1 << 16); // one read for most steps
	while (fread(&length, 4, 1, stdin) == 1) {
		int type = fgetc(stdin);
		if (length > room && !(content = realloc(content, (room = length) + 1)))
			fail("no memory");
		if (type == EOF || fread(content, 1, length - 1, stdin) != length - 1)
			fail("a message ends too early");
		content[length - 1] = 0;
		if (type == 'H') {
			const char hello[] = "{\"protocol\": 1, \"needs\": []}";
			answer('H', hello, sizeof hello - 1);
		} else if (type == 'R') {
			const char *at = strstr(content, "\"blocks\":");
			size_t places = at ? strtoul(at + 9, NULL, 10) + 1 : 0;
			free(next), free(before);
			next = calloc(places, sizeof *next), before = calloc(places, sizeof *before);
			if (!places || !next || !before)
				fail("no memory, or no number of blocks");
		} else if (type == 'U') {
			int32_t *lengths = (int32_t *)content + 2, *list = lengths + 5;
			int32_t *hit = list + lengths[0], *left = hit + lengths[1] + lengths[2];
			for (int32_t i = 0; i < lengths[3]; i++)
				append(left[i] + 1);
			for (int32_t i = 0; i < lengths[0]; i++)
				append(list[i] + 1);
			for (int32_t i = 0; i < lengths[1]; i++)
				unlink_place(hit[i] + 1);
		} else if (type == 'E') {
			int32_t n, *victims;
			memcpy(&n, content, 4);
			if (!(victims = malloc(4 * (size_t)n)))
				fail("no memory");
			for (int32_t i = 0; i < n; i++) {
				victims[i] = next[0] - 1;
				unlink_place(next[0]);
			}
			answer('V', victims, 4 * n);
			free(victims);
		}
	}
	return 0;
}
