#include "worker/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/base/file_io.h"
#include "worker/data/text_files.h"
#include "worker/data/tokenizer_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::string Vectors(const std::string& name) {
  return absl::StrCat(ATOLL_TOKENIZER_VECTORS, "/", name);
}

std::unique_ptr<Tokenizer> Load(const std::string& spec) {
  auto tokenizer = LoadTokenizer(spec);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::vector<uint32_t> Encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<uint32_t> tokens;
  const absl::Status status = tokenizer.NewEncoder()->Encode(text, &tokens);
  EXPECT_TRUE(status.ok()) << status;
  return tokens;
}

// Text that looks like none: runs of bytes, of characters, of spaces and of digits.
std::string AnyText(std::mt19937& random, bool utf8) {
  static const char* const kParts[] = {" ",  "\n", "the",  "The ", "\xc3\xa9",     "7",  "'ll",
                                       "\t", "!",  "\r\n", "sea",  "\xe6\x97\xa5", "  ", "<|end|>"};
  std::string text;
  for (size_t parts = random() % 60; parts > 0; --parts) {
    if (utf8 || random() % 3 != 0) {
      text += kParts[random() % (sizeof kParts / sizeof kParts[0])];
    } else {
      text.push_back(static_cast<char>(random()));
    }
  }
  return text;
}

// Broken: token ids would not be those that a model was trained with elsewhere. The vectors are of
// make_tokenizer_vectors.py, which shares no code with what is tested.
TEST(TokenizerTest, BpeGivesTheTokensOfAnIndependentImplementation) {
  for (const std::string name : {"gpt2", "llama3"}) {
    const auto tokenizer = Load(Vectors(name + ".json"));
    const auto encoder = tokenizer->NewEncoder();
    std::ifstream file(Vectors(name + ".vectors"));
    size_t vectors = 0;
    for (std::string line; std::getline(file, line); ++vectors) {
      const nlohmann::json vector = nlohmann::json::parse(line);
      const auto text = vector["text"].get<std::string>();
      // Twice by one encoder: what it remembers must not change what it says.
      for (int pass = 0; pass < 2; ++pass) {
        std::vector<uint32_t> tokens;
        ASSERT_TRUE(encoder->Encode(text, &tokens).ok());
        EXPECT_EQ(tokens, vector["tokens"].get<std::vector<uint32_t>>()) << name << ": " << line;
      }
    }
    EXPECT_GE(vectors, 30u);
  }
}

// Broken: a model's text could not be read back, or text be lost in training.
TEST(TokenizerTest, AnyBytesComeBack) {
  std::mt19937 random(1);
  for (const std::string& spec :
       {std::string("bytes"), Vectors("gpt2.json"), Vectors("llama3.json")}) {
    const auto tokenizer = Load(spec);
    for (int i = 0; i < 500; ++i) {
      const std::string text = AnyText(random, /*utf8=*/false);
      const std::vector<uint32_t> tokens = Encode(*tokenizer, text);
      for (const uint32_t token : tokens) EXPECT_LT(token, tokenizer->vocabulary());
      EXPECT_EQ(*tokenizer->Decode(tokens), text) << spec;
    }
    EXPECT_FALSE(tokenizer->Decode({tokenizer->vocabulary()}).ok());
  }
}

// Broken: the tokens of a corpus would depend on how it is cut for the threads.
TEST(TokenizerTest, TextIsCutWhereTheTokensAreCutAnyway) {
  std::mt19937 random(2);
  for (const std::string name : {"gpt2.json", "llama3.json"}) {
    const auto tokenizer = Load(Vectors(name));
    const std::string path = absl::StrCat(::testing::TempDir(), "/atoll-cuts.txt");
    std::string text;
    while (text.size() < 20000) text += AnyText(random, /*utf8=*/true) + "on the reef ";
    std::ofstream(path, std::ios::binary) << text;
    const auto files = OpenTextFiles(path, "", false);
    ASSERT_TRUE(files.ok()) << files.status();
    std::vector<uint32_t> tokens;
    const auto pieces = CutText(*files, *tokenizer, 100);
    EXPECT_GT(pieces.size(), 50u);
    const auto encoder = tokenizer->NewEncoder();
    for (const TextPiece& piece : pieces) {
      ASSERT_TRUE(EncodePiece(*files, piece, "", *tokenizer, *encoder, &tokens).ok());
    }
    EXPECT_EQ(tokens, Encode(*tokenizer, text));
  }
}

// Broken: ids of characters would not be those of nanoGPT's shakespeare_char, or a character that
// is none of them be passed over.
TEST(TokenizerTest, CharactersAreThoseOfTheirFile) {
  const auto made = MakeCharTokenizer({'\n', 'a', 'b', 0xe9, 0x1f3dd});
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string text =
      "b\xc3\xa9\n\xf0\x9f\x8f\x9d"
      "a";
  EXPECT_EQ(Encode(**made, text), (std::vector<uint32_t>{2, 3, 0, 4, 1}));
  EXPECT_EQ(*(*made)->Decode({2, 3, 0, 4, 1}), text);
  const auto again = ParseTokenizer("x", (*made)->file());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->digest(), (*made)->digest());
  std::vector<uint32_t> tokens;
  EXPECT_EQ((*made)->NewEncoder()->Encode("abz", &tokens).message(),
            "U+007A at byte 2 is none of the tokenizer's characters");
  EXPECT_FALSE(MakeCharTokenizer({'b', 'a'}).ok());
  EXPECT_FALSE(MakeCharTokenizer({}).ok());
  std::vector<uint32_t> many(65537);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<uint32_t>(0x10000 + i);
  EXPECT_THAT(std::string(MakeCharTokenizer(many).status().message()),
              HasSubstr("65537 different characters"));
}

// Broken: a SentencePiece model's tokens would not be its own program's. The vectors are what
// spm_encode of Debian's package sentencepiece prints for the model that spm_train made
// (make_sentencepiece_vectors.sh).
TEST(TokenizerTest, SentencePieceGivesTheTokensOfItsProgram) {
  const auto tokenizer = Load(Vectors("sentencepiece.model"));
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  std::ifstream texts(Vectors("sentencepiece.text")), vectors(Vectors("sentencepiece.vectors"));
  size_t lines = 0;
  for (std::string text, ids; std::getline(texts, text) && std::getline(vectors, ids); ++lines) {
    const std::vector<uint32_t> tokens = Encode(*tokenizer, text);
    EXPECT_EQ(absl::StrJoin(tokens, " "), ids);
    EXPECT_EQ(*tokenizer->Decode(tokens), text);
  }
  EXPECT_GE(lines, 5u);
}

// Broken: a tokenizer that works otherwise than is known here would give wrong tokens in silence.
TEST(TokenizerTest, NamesWhatIsWrongWithAFile) {
  const nlohmann::json good = nlohmann::json::parse(*ReadWholeFile(Vectors("gpt2.json")));
  const auto message = [](const std::string& file) {
    const absl::Status status = ParseTokenizer("FILE", file).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer FILE: "));
    return std::string(status.message());
  };
  const auto changed = [&](const std::string& pointer, const nlohmann::json& value) {
    nlohmann::json json = good;
    json[nlohmann::json::json_pointer(pointer)] = value;
    return message(json.dump());
  };
  EXPECT_THAT(message(""), HasSubstr("empty"));
  EXPECT_THAT(message("{"), HasSubstr("not well-formed JSON"));
  EXPECT_THAT(message("no model"), HasSubstr("neither JSON nor a model: SentencePiece"));
  EXPECT_THAT(changed("/model/type", "WordPiece"), HasSubstr("model.type is \"WordPiece\""));
  EXPECT_THAT(changed("/normalizer", {{"type", "NFC"}}), HasSubstr("normalizer \"NFC\""));
  EXPECT_THAT(changed("/pre_tokenizer/type", "Whitespace"), HasSubstr("\"Whitespace\""));
  EXPECT_THAT(changed("/model/merges/3", "x"), HasSubstr("model.merges[3] is not two tokens"));
  EXPECT_THAT(changed("/model/merges/3", "t zzzz"), HasSubstr("model.merges[3] names a token"));
  EXPECT_THAT(changed("/model/vocab", {{"a", 0}}), HasSubstr("no token for byte 0"));
  EXPECT_THAT(changed("/model/vocab/a", -1), HasSubstr("the id of \"a\""));
  EXPECT_THAT(changed("/added_tokens/0/lstrip", true), HasSubstr("added_tokens[0]: lstrip"));
  EXPECT_THAT(changed("/model/end_of_word_suffix", "</w>"), HasSubstr("model.end_of_word_suffix"));
  nlohmann::json pattern = {{"type", "Split"},
                            {"pattern", {{"Regex", "("}}},
                            {"behavior", "Isolated"},
                            {"invert", false}};
  nlohmann::json level = good["pre_tokenizer"];
  EXPECT_THAT(
      changed("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {pattern, level}}}),
      HasSubstr("the pattern ( is not understood"));
  EXPECT_TRUE(absl::IsNotFound(LoadTokenizer("/nowhere/tokenizer.json").status()));
}

}  // namespace
}  // namespace atolld
