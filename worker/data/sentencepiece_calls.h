// The functions of the module atoll-sentencepiece.so, as a C interface; tokenizer_sentencepiece.h
// says why the module exists. Returned texts are static, or valid until the next call for the same
// model on the same thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

struct SentencePieceCalls {
  // Returns null and sets `error` if the bytes are not a model. The caller must free the model.
  void* (*load)(const char* bytes, size_t size, const char** error);
  void (*free)(void* model);
  uint32_t (*vocabulary)(void* model);
  // Returns the id of the end of a text, or a negative value if the model has none.
  int64_t (*end_of_text)(void* model);

  // encode and decode call `take` once with the whole result and return null. If they fail, they
  // return an error message instead.
  const char* (*encode)(void* model, const char* text, size_t size, void* context,
                        void (*take)(void* context, const int* tokens, size_t count));
  const char* (*decode)(void* model, const int* tokens, size_t count, void* context,
                        void (*take)(void* context, const char* text, size_t size));

  // Returns the id of a piece, or a negative value if there is no such piece.
  int64_t (*id_of)(void* model, const char* piece, size_t size);
};

inline constexpr char kSentencePieceModule[] = "atoll-sentencepiece.so";
inline constexpr char kSentencePieceSymbol[] = "atoll_sentencepiece_calls";

}  // namespace atolld
