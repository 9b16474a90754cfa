// Reads any text as a join token, and a damaged real one: only what was made is accepted, and every
// refusal is one line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "membership/trust/tokens.h"
#include "tests/fuzz/fuzz_input.h"

namespace atolld {
namespace {

std::string Text(absl::Span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

// Protobuf's strings are UTF-8.
std::string Ascii(absl::Span<const uint8_t> bytes) {
  std::string text = Text(bytes);
  for (char& c : text) c = static_cast<char>(c & 0x7f);
  return text;
}

void CheckRefusal(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status), "what is no token is INVALID_ARGUMENT");
  Require(status.message().find('\n') == absl::string_view::npos, "the refusal is one line");
}

}  // namespace
}  // namespace atolld

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  FuzzInput input(data, size);
  const std::string any = Text({data, size});
  for (const std::string& text : {any, "atoll1-" + any}) {
    const auto parsed = ParseJoinToken(text);
    if (!parsed.ok()) {
      CheckRefusal(parsed.status());
    } else {
      Require(ParseJoinToken(FormatJoinToken(*parsed)).ok(), "what was parsed can be made again");
    }
  }

  v1::JoinToken token;
  token.set_address(Ascii(input.Take(1 + input.Below(40))) + "a");
  token.set_authority(Ascii(input.Take(input.Below(400))) + "b");
  token.set_certificate(Ascii(input.Take(input.Below(400))) + "c");
  token.set_key(Ascii(input.Take(input.Below(200))) + "d");
  const std::string text = FormatJoinToken(token);
  std::vector<uint8_t> damaged(text.begin(), text.end());
  input.Damage(&damaged);
  const auto parsed = ParseJoinToken(Text(damaged));
  if (!parsed.ok()) {
    CheckRefusal(parsed.status());
  } else {
    Require(parsed->key() == token.key() && parsed->certificate() == token.certificate(),
            "a damaged token is not taken for another");
  }
  return 0;
}
