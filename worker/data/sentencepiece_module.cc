// The module atoll-sentencepiece.so: SentencePiece behind C calls. No exception leaves it.
#include <sentencepiece_processor.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/sentencepiece_calls.h"

namespace atolld {
namespace {

using sentencepiece::SentencePieceProcessor;
using sentencepiece::util::Status;

SentencePieceProcessor& Of(void* model) { return *static_cast<SentencePieceProcessor*>(model); }

// Runs `call` and keeps what it reports or throws for the thread; returns null if it succeeded.
template <typename Call>
const char* ErrorOf(Call&& call) {
  thread_local std::string error;
  try {
    const Status status = call();
    if (status.ok()) return nullptr;
    error = status.ToString();
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  return error.c_str();
}

void* Load(const char* bytes, size_t size, const char** error) {
  auto model = std::make_unique<SentencePieceProcessor>();
  *error = ErrorOf([&] { return model->LoadFromSerializedProto(std::string_view(bytes, size)); });
  return *error == nullptr ? model.release() : nullptr;
}

void Free(void* model) { delete &Of(model); }
uint32_t Vocabulary(void* model) { return static_cast<uint32_t>(Of(model).GetPieceSize()); }
int64_t EndOfText(void* model) { return Of(model).eos_id(); }

const char* Encode(void* model, const char* text, size_t size, void* context,
                   void (*take)(void*, const int*, size_t)) {
  std::vector<int> tokens;
  const char* error =
      ErrorOf([&] { return Of(model).Encode(std::string_view(text, size), &tokens); });
  if (error == nullptr) take(context, tokens.data(), tokens.size());
  return error;
}

const char* Decode(void* model, const int* tokens, size_t count, void* context,
                   void (*take)(void*, const char*, size_t)) {
  std::string text;
  const char* error =
      ErrorOf([&] { return Of(model).Decode(std::vector<int>(tokens, tokens + count), &text); });
  if (error == nullptr) take(context, text.data(), text.size());
  return error;
}

// For an unknown piece the model returns the id of the unknown token.
int64_t IdOf(void* model, const char* piece, size_t size) {
  const std::string_view wanted(piece, size);
  int id = -1;
  const char* error = ErrorOf([&] {
    id = Of(model).PieceToId(wanted);
    return Status();
  });
  if (error != nullptr || id < 0 || Of(model).IdToPiece(id) != wanted) return -1;
  return id;
}

}  // namespace
}  // namespace atolld

extern "C" __attribute__((visibility("default")))
const atolld::SentencePieceCalls atoll_sentencepiece_calls = {
    atolld::Load,   atolld::Free,   atolld::Vocabulary, atolld::EndOfText,
    atolld::Encode, atolld::Decode, atolld::IdOf};
