/* Texts to rows for a linear classifier: words hashed into buckets, counted, each row scaled to length 1. */
#include <sandseal.h>

/* Letters and digits make words; so does every byte of a character beyond ASCII. */
static int is_of_word(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'z') || byte >= 128;
}

static uint8_t lower(uint8_t byte) { return byte >= 'A' && byte <= 'Z' ? byte | 32 : byte; }

/* FNV-1a, 32 bits. */
static uint32_t hash_step(uint32_t hash, uint8_t byte) { return (hash ^ byte) * 16777619u; }

static uint32_t count_words(struct sandseal_text text, uint32_t least, float *row, uint32_t buckets) {
    uint32_t words = 0, letters = 0, hash = 2166136261u;
    for (uint32_t i = 0; i <= text.size; i++) {
        uint8_t byte = i < text.size ? (uint8_t)text.data[i] : ' ';
        if (is_of_word(byte)) {
            hash = hash_step(hash, lower(byte));
            letters++;
        } else {
            if (letters >= least && letters) row[hash % buckets] += 1, words++;
            letters = 0, hash = 2166136261u;
        }
    }
    return words;
}

static void scale_to_one(float *row, uint32_t buckets) {
    float squares = 0;
    for (uint32_t i = 0; i < buckets; i++) squares += row[i] * row[i];
    float length = __builtin_sqrtf(squares);
    SANDSEAL_UNROLL
    for (uint32_t i = 0; i < buckets; i++) row[i] /= length;
}

SANDSEAL_STAGE(hash_words) {
    const struct sandseal_tensor *texts = sandseal_input(call, 0);
    struct sandseal_tensor *output = sandseal_output(call, 0);
    uint32_t buckets = (uint32_t)output->shape[1], least = (uint32_t)sandseal_config(call, "least_letters", 1);
    float *row = sandseal_make(output, (int64_t[]){texts->shape[0], buckets});

    struct sandseal_reader reader = sandseal_read(texts);
    for (struct sandseal_text text; sandseal_next(&reader, &text); row += buckets) {
        __builtin_memset(row, 0, buckets * sizeof *row);
        if (!count_words(text, least, row, buckets)) return sandseal_refuse(call, "a text holds no word");
        scale_to_one(row, buckets);
    }
    return SANDSEAL_DONE;
}
