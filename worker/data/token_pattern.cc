#include "worker/data/token_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {

namespace {

// The characters of \s, Unicode's White_Space: PCRE2 counts U+180E among them.
constexpr char kWhiteSpaceClass[] =
    R"(\t-\r\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr char kRubyWordClass[] = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr char kHexClass[] = "0-9A-Fa-f";

pcre2_code* CodeOf(void* code) { return static_cast<pcre2_code*>(code); }
pcre2_match_data* MatchOf(void* match) { return static_cast<pcre2_match_data*>(match); }
void FreeCode(void* code) { pcre2_code_free(CodeOf(code)); }
void FreeMatch(void* match) { pcre2_match_data_free(MatchOf(match)); }

std::string MessageOfPcre(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Translates one of Oniguruma's patterns into one of PCRE2's.
class PatternWriter {
 public:
  explicit PatternWriter(absl::string_view pattern) : in_(pattern) {}

  // INVALID_ARGUMENT: what of it would mean something else, or is not known to mean the same.
  absl::StatusOr<std::string> Write() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        RETURN_IF_ERROR(Escape(/*in_class=*/false));
      } else if (c == '[') {
        RETURN_IF_ERROR(Class());
      } else if (c == '(') {
        RETURN_IF_ERROR(Group());
      } else if (c == '{') {
        RETURN_IF_ERROR(Interval());
      } else {
        out_.push_back(c);
        ++at_;
      }
    }
    RETURN_IF_ERROR(CheckFolding());
    return std::move(out_);
  }

 private:
  static absl::Status Unknown(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is not known"));
  }

  bool Follows(absl::string_view text) const { return absl::StartsWith(in_.substr(at_), text); }

  void Take(size_t count, absl::string_view as) {
    absl::StrAppend(&out_, as);
    at_ += count;
  }

  // A group that is no plain one says so by what follows "(?".
  absl::Status Group() {
    if (Follows("(*")) return Unknown("(*");
    if (!Follows("(?")) {
      Take(1, "(");
      return absl::OkStatus();
    }
    for (const char* known : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (!Follows(known)) continue;
      Take(absl::string_view(known).size(), known);
      return absl::OkStatus();
    }
    size_t end = at_ + 2;
    std::string options = "(?";
    while (end < in_.size() && absl::StrContains("im-", in_[end])) {
      folds_ = folds_ || in_[end] == 'i';
      options.push_back(in_[end] == 'm' ? 's' : in_[end]);  // Ruby's m lets . match a newline
      ++end;
    }
    // In the middle (?i) takes in what follows as one group to Oniguruma, alternatives and all.
    const bool known =
        end < in_.size() && end > at_ + 2 && (in_[end] == ':' || (in_[end] == ')' && at_ == 0));
    if (!known) return Unknown(in_.substr(at_, 3));
    Take(end + 1 - at_, absl::StrCat(options, in_.substr(end, 1)));
    return absl::OkStatus();
  }

  // {n}, {n,}, {n,m} and Ruby's {,m}; any other brace is itself.
  absl::Status Interval() {
    const size_t end = in_.find('}', at_);
    const absl::string_view inside =
        end == absl::string_view::npos ? "" : in_.substr(at_ + 1, end - at_ - 1);
    const bool numbers = inside.find_first_not_of("0123456789,") == absl::string_view::npos;
    const size_t comma = inside.find(',');
    if (!numbers || inside.empty() || inside == "," || inside.rfind(',') != comma) {
      Take(1, "\\{");
      return absl::OkStatus();
    }
    const char next = end + 1 < in_.size() ? in_[end + 1] : ' ';
    // To Ruby these repeat what was repeated; to PCRE2 they are possessive and lazy.
    if (next == '+' || (next == '?' && comma == absl::string_view::npos)) {
      return Unknown(in_.substr(at_, end + 2 - at_));
    }
    Take(inside.size() + 2, absl::StrCat("{", comma == 0 ? "0" : "", inside, "}"));
    return absl::OkStatus();
  }

  absl::Status Escape(bool in_class) {
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    const auto write = [&](absl::string_view members, bool negated) {
      if (in_class) return Take(2, members);
      Take(2, absl::StrCat(negated ? "[^" : "[", members, "]"));
    };
    if (c == 'p' || c == 'P') return Property();
    if (c == 'x' || c == 'u') return Hex();
    if (c == 's' || (c == 'S' && !in_class)) {
      write(kWhiteSpaceClass, c == 'S');
    } else if (c == 'S') {
      Take(2, R"(\P{White_Space})");
    } else if (c == 'w' || (c == 'W' && !in_class)) {
      write(kRubyWordClass, c == 'W');
    } else if (c == 'h' || (c == 'H' && !in_class)) {
      write(kHexClass, c == 'H');
    } else if (c == 'd' || c == 'D') {
      Take(2, c == 'd' ? R"(\p{Nd})" : R"(\P{Nd})");
    } else if (c == 'v') {
      Take(2, R"(\x0b)");
    } else if (absl::StrContains("nrtfae", c) || (!in_class && absl::StrContains("Az", c))) {
      Take(2, in_.substr(at_, 2));
    } else if (c == '\0' || absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      return Unknown(in_.substr(at_, 2));
    } else {
      Take(1, "\\");
      Take(1, in_.substr(at_, 1));
    }
    return absl::OkStatus();
  }

  // \p{L}, \P{Lu}, \p{^N}, \p{Han}: PCRE2 takes a script's bare name for what its characters are
  // also used in.
  absl::Status Property() {
    const size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == absl::string_view::npos) {
      return Unknown(in_.substr(at_, 3));
    }
    std::string name(in_.substr(at_ + 3, end - at_ - 3));
    const bool negated = absl::StartsWith(name, "^");
    if (negated) name.erase(0, 1);
    static constexpr std::pair<const char*, const char*> kLongNames[] = {
        {"Letter", "L"},      {"Mark", "M"},   {"Number", "N"},
        {"Punctuation", "P"}, {"Symbol", "S"}, {"Separator", "Z"}};
    std::string own = name.size() <= 2 ? name : absl::StrCat("sc:", name);
    for (const auto& [long_name, short_name] : kLongNames) {
      if (name == long_name) own = short_name;
    }
    absl::StrAppend(&out_, in_.substr(at_, 2), "{", negated ? "^" : "", own, "}");
    at_ = end + 1;
    return absl::OkStatus();
  }

  // \xHH, \x{HHHH}, \uHHHH. From \x80 on Oniguruma takes two digits for a byte, not a character.
  absl::Status Hex() {
    const bool braces = in_.substr(at_, 3) == "\\x{";
    const size_t first = at_ + (braces ? 3 : 2);
    const size_t most = braces ? 8 : in_[at_ + 1] == 'u' ? 4 : 2;
    size_t end = first;
    uint32_t character = 0;
    while (end < in_.size() && end - first < most &&
           absl::ascii_isxdigit(static_cast<unsigned char>(in_[end]))) {
      ++end;
    }
    const bool read = absl::SimpleHexAtoi(in_.substr(first, end - first), &character);
    const bool closed = !braces || (end < in_.size() && in_[end] == '}');
    if (!read || !closed || (most == 2 && character >= 0x80) || (most == 4 && end - first < 4)) {
      return Unknown(in_.substr(at_, 3));
    }
    absl::StrAppend(&out_, "\\x{", absl::Hex(character), "}");
    at_ = end + (braces ? 1 : 0);
    return absl::OkStatus();
  }

  // A class may hold others, whose members are its own.
  absl::Status Class() {
    Take(1, "[");
    if (Follows("^")) Take(1, "^");
    if (Follows("]")) return Unknown("a class that begins with ]");
    for (size_t depth = 1; depth > 0;) {
      if (at_ == in_.size()) return Unknown("a class without an end");
      const char c = in_[at_];
      if (c == '\\') {
        RETURN_IF_ERROR(Escape(/*in_class=*/true));
      } else if (c == '[') {
        if (Follows("[^") || Follows("[:") || in_[at_ - 1] == '-') {
          return Unknown(absl::StrCat(in_.substr(at_, 2), " within a class"));
        }
        ++depth;
        ++at_;
      } else if (c == ']') {
        if (depth > 1 && at_ + 1 < in_.size() && in_[at_ + 1] == '-') {
          return Unknown("]- within a class");
        }
        if (--depth == 0) out_.push_back(']');
        ++at_;
      } else if (Follows("&&")) {
        return Unknown("&& within a class");
      } else {
        out_.push_back(c);
        ++at_;
      }
    }
    return absl::OkStatus();
  }

  // Oniguruma lets these stand for one character where case is ignored, as ss for the sharp s.
  absl::Status CheckFolding() const {
    if (!folds_) return absl::OkStatus();
    const std::string small = absl::AsciiStrToLower(in_);
    for (const char* pair : {"ss", "st", "ff", "fi", "fl"}) {
      if (absl::StrContains(small, pair)) return Unknown(absl::StrCat("(?i) with ", pair));
    }
    return absl::OkStatus();
  }

  const absl::string_view in_;
  size_t at_ = 0;
  std::string out_;
  bool folds_ = false;
};

}  // namespace

absl::StatusOr<TokenPattern> TokenPattern::OfRegex(const std::string& regex) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern ", regex, " is not understood: ", why));
  };
  const auto written = PatternWriter(regex).Write();
  if (!written.ok()) return wrong(written.status().message());
  if (written->empty()) return wrong("it is empty");
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written->data()), written->size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, context.get());
  if (code == nullptr) return wrong(MessageOfPcre(error));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching is slower, no more
  TokenPattern pattern;
  pattern.code_ = {code, &FreeCode};
  return pattern;
}

TokenPattern TokenPattern::OfText(std::string text) {
  TokenPattern pattern;
  pattern.text_ = std::move(text);
  return pattern;
}

TokenPattern::Scratch::Scratch(const TokenPattern& pattern)
    : match_(pattern.code_ == nullptr
                 ? nullptr
                 : pcre2_match_data_create_from_pattern(CodeOf(pattern.code_.get()), nullptr),
             &FreeMatch) {}

bool TokenPattern::Find(Search& search, Scratch& scratch) const {
  if (!text_.empty()) {
    search.first = search.text.find(text_, search.from_);
    search.end = search.first + text_.size();
    return search.first != absl::string_view::npos;
  }
  pcre2_match_data* match = MatchOf(scratch.match_.get());
  const auto subject = reinterpret_cast<PCRE2_SPTR>(search.text.data());
  int found = pcre2_match(CodeOf(code_.get()), subject, search.text.size(), search.from_,
                          PCRE2_NO_UTF_CHECK, match, nullptr);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // its interpreter takes memory from the heap
    found = pcre2_match(CodeOf(code_.get()), subject, search.text.size(), search.from_,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, nullptr);
  }
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) {
    search.status = absl::InternalError(absl::StrCat("PCRE2: ", MessageOfPcre(found)));
    return false;
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
  search.first = bounds[0];
  search.end = bounds[1];
  return true;
}

bool TokenPattern::Next(Search& search, Scratch& scratch) const {
  while (search.from_ <= search.text.size()) {
    if (!Find(search, scratch)) return false;
    if (search.first != search.end || search.end != search.last_) {
      search.from_ = search.last_ = search.end;
      return true;
    }
    do {  // on behind the next character
      ++search.from_;
    } while (search.from_ < search.text.size() && (search.text[search.from_] & 0xc0) == 0x80);
  }
  return false;
}

absl::StatusOr<std::string> TokenPattern::Replace(absl::string_view text,
                                                  absl::string_view content) const {
  Scratch scratch(*this);
  Search search(text);
  std::string out;
  size_t done = 0;
  while (Next(search, scratch)) {
    absl::StrAppend(&out, text.substr(done, search.first - done), content);
    done = search.end;
  }
  RETURN_IF_ERROR(search.status);
  absl::StrAppend(&out, text.substr(done));
  return out;
}

}  // namespace atolld
