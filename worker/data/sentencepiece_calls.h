// The calls of the module atoll-sentencepiece.so, in C: see tokenizer_sentencepiece.h for why there
// is one. Texts that come back are static or belong to the model, until its next call on that
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

struct SentencePieceCalls {
  // Null, with `error` set: the bytes are no model. The caller frees what it gets.
  void* (*load)(const char* bytes, size_t size, const char** error);
  void (*free)(void* model);
  uint32_t (*vocabulary)(void* model);
  int64_t (*end_of_text)(void* model);  // below 0: none

  // Null: done, and `take` was called once with all that came of it. Else what went wrong.
  const char* (*encode)(void* model, const char* text, size_t size, void* context,
                        void (*take)(void* context, const int* tokens, size_t count));
  const char* (*decode)(void* model, const int* tokens, size_t count, void* context,
                        void (*take)(void* context, const char* text, size_t size));

  int64_t (*id_of)(void* model, const char* piece, size_t size);  // below 0: no such piece
};

inline constexpr char kSentencePieceModule[] = "atoll-sentencepiece.so";
inline constexpr char kSentencePieceSymbol[] = "atoll_sentencepiece_calls";

}  // namespace atolld
