#include "worker/data/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/base/file_io.h"
#include "worker/data/tokenizer_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json ReadVectors(const std::string& name) {
  return Json::parse(*ReadWholeFile(absl::StrCat(ATOLL_TOKENIZER_VECTORS, "/", name)));
}

// The vocabulary of merges: what they start from, then what each makes.
void AddVocabulary(const Json& made, Json* model) {
  if (made.contains("vocab")) {
    (*model)["vocab"] = made["vocab"];
    return;
  }
  Json ids = Json::object();
  Json merges = Json::array();
  for (const Json& token : made["symbols"]) ids[token.get<std::string>()] = ids.size();
  for (const Json& pair : made["merges"]) {
    const auto left = pair[0].get<std::string>(), right = pair[1].get<std::string>();
    const std::string joined = left + right;
    if (!ids.contains(joined)) ids[joined] = ids.size();
    merges.push_back(left + " " + right);
  }
  (*model)["vocab"] = ids;
  (*model)["merges"] = merges;
}

// The tokenizer.json of a shape of families.json (make_family_vectors.py, whole_file).
Json FileOf(const Json& families, const Json& shape) {
  Json model = shape["model"];
  AddVocabulary(families["vocabularies"][shape["of"].get<std::string>()], &model);
  Json file = {{"version", "1.0"},
               {"decoder", families["decoders"][shape["decoder"].get<std::string>()]}};
  for (const char* part : {"normalizer", "pre_tokenizer"}) {
    file[part] = shape.contains(part) ? shape[part] : Json();
  }
  file["added_tokens"] = Json::array();
  size_t next = model["vocab"].size();
  for (Json token : shape["added_tokens"]) {
    const auto content = token["content"].get<std::string>();
    const Json& vocabulary = model["vocab"];
    size_t id = vocabulary.is_object() && vocabulary.contains(content)
                    ? vocabulary[content].get<size_t>()
                    : next;
    for (size_t i = 0; vocabulary.is_array() && i < vocabulary.size(); ++i) {
      if (vocabulary[i][0] == content) id = i;
    }
    if (id == next) ++next;
    token["id"] = id;
    file["added_tokens"].push_back(token);
  }
  file["model"] = model;
  return file;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(const Json& json) {
  return ParseTokenizer("made", json.dump());
}

std::unique_ptr<Tokenizer> MustParse(const Json& json) {
  auto tokenizer = Parse(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::string Refusal(const Json& json) { return std::string(Parse(json).status().message()); }

std::string IdsOf(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<uint32_t> ids;
  const absl::Status status = tokenizer.NewEncoder()->Encode(text, &ids);
  return status.ok() ? absl::StrJoin(ids, " ") : std::string(status.message());
}

Json ShapeNamed(const Json& families, const std::string& name) {
  for (const Json& shape : families["shapes"]) {
    if (shape["name"] == name) return shape;
  }
  ADD_FAILURE() << name;
  return {};
}

Json FileNamed(const std::string& name) {
  const Json families = ReadVectors("families.json");
  return FileOf(families, ShapeNamed(families, name));
}

// Broken: text would become other ids than a model was trained with, without a word. The vectors
// are what Hugging Face's tokenizers give for files of the same shape (make_family_vectors.py).
TEST(TokenizerJsonTest, EveryShapeGivesTheIdsOfHuggingFace) {
  const Json families = ReadVectors("families.json"), vectors = ReadVectors("families.vectors");
  ASSERT_GE(families["shapes"].size(), 40u);
  for (size_t i = 0; i < families["shapes"].size(); ++i) {
    const Json& shape = families["shapes"][i];
    const auto tokenizer = Parse(FileOf(families, shape));
    ASSERT_TRUE(tokenizer.ok()) << shape["name"] << ": " << tokenizer.status();
    const auto encoder = (*tokenizer)->NewEncoder();
    size_t text = shape["texts"][0].get<size_t>();
    for (const Json& row : vectors["results"][i]) {
      const auto given = families["texts"][text].get<std::string>();
      text += shape["texts"][1].get<size_t>();
      // Twice by one encoder: what it remembers must not change what it says.
      for (int pass = 0; pass < 2; ++pass) {
        std::vector<uint32_t> ids;
        const absl::Status status = encoder->Encode(given, &ids);
        EXPECT_TRUE(status.ok()) << shape["name"] << ": " << status;
        EXPECT_EQ(absl::StrJoin(ids, " "), vectors["lines"][row[0].get<size_t>()])
            << shape["name"] << ": \"" << given << "\"";
        const Json back = row.size() > 1 ? vectors["lines"][row[1].get<size_t>()] : Json(given);
        EXPECT_EQ(*(*tokenizer)->Decode(ids), back) << shape["name"];
      }
    }
    EXPECT_GE(text, families["texts"].size()) << shape["name"];
  }
}

// Broken: a text of one long word, or of no spaces, would take hours, or the stack.
TEST(TokenizerJsonTest, LongWordsAreNoTrouble) {
  std::string text;
  while (text.size() < 100000) absl::StrAppend(&text, "thesea", text.size() % 7, "isold");
  for (const char* name : {"no cuts", "Gemma 2, 3", "merges over spaces", "Unigram", "DeepSeek V3",
                           "Llama 4, gpt-oss"}) {
    const auto tokenizer = MustParse(FileNamed(name));
    for (const std::string& whole :
         {text, "x" + std::string(100000, ' ') + "x", std::string(100000, 'a')}) {
      std::vector<uint32_t> ids;
      const absl::Status status = tokenizer->NewEncoder()->Encode(whole, &ids);
      ASSERT_TRUE(status.ok()) << name << ": " << status;
      EXPECT_EQ(*tokenizer->Decode(ids), whole) << name;
    }
  }
}

// Broken: a file that works otherwise than is known here would give wrong ids, or be refused
// without its user learning why.
TEST(TokenizerJsonTest, WhatIsNotKnownIsRefusedByName) {
  const Json good = FileNamed("Llama 3");
  const auto with = [&](const std::string& pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return Refusal(json);
  };
  EXPECT_THAT(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AA=="}}),
              HasSubstr("normalizer \"Precompiled\" is not known here; known: Sequence, NFC"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "UnicodeScripts"}}),
              HasSubstr("pre_tokenizer \"UnicodeScripts\" is not known here; known: Sequence"));
  EXPECT_THAT(with("/model/type", "WordPiece"), HasSubstr("model.type is \"WordPiece\""));
  EXPECT_THAT(with("/model/type", "WordLevel"), HasSubstr("known: BPE, Unigram"));
  EXPECT_THAT(with("/model", Json()), HasSubstr("no part \"model\""));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("model.dropout is not 0"));
  EXPECT_THAT(with("/added_tokens/0/id", 7), HasSubstr("has the id 7, and Hugging Face's"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/behavior", "Joined"),
              HasSubstr("behavior \"Joined\" is not known here"));
  EXPECT_THAT(with("/pre_tokenizer",
                   {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}),
              HasSubstr("prepend_scheme \"last\""));
  Json first = FileNamed("Mistral v3");
  first["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}};
  EXPECT_THAT(Refusal(first), HasSubstr("prepend_scheme \"first\" is not known here behind"));
  EXPECT_THAT(Refusal(Json{{"vocab", Json::array()}, {"config", {{"pattern", "x"}}}}),
              HasSubstr("tekken.json; take the tokenizer.json"));
  EXPECT_THAT(std::string(ParseTokenizer("made", "IQ== 0\nIg== 1\n").status().message()),
              HasSubstr("tiktoken file"));
}

// Broken: a pattern would mean to PCRE2 what it does not mean to Oniguruma, in silence.
TEST(TokenizerJsonTest, PatternsThatTwoEnginesReadDifferentlyAreRefused) {
  const auto refusal = [](const std::string& pattern) {
    Json json = FileNamed("no cuts");
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    json["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {split, json["pre_tokenizer"]}}};
    const std::string why = Refusal(json);
    EXPECT_TRUE(why.empty() || absl::StrContains(why, absl::StrCat("the pattern ", pattern)))
        << why;
    return why;
  };
  EXPECT_EQ(refusal(R"([^(\s|[.,!?])x]+(?=\p{Han}|\h{2,}|\w?+)$|(?<![a-f])\u0041)"), "");
  EXPECT_THAT(refusal(R"(\p{N}{1,3}+)"), HasSubstr("{1,3}+ is not known"));
  EXPECT_THAT(refusal(R"(a(?i)b|c)"), HasSubstr("(?i is not known"));
  EXPECT_THAT(refusal(R"((?i:ss))"), HasSubstr("(?i) with ss"));
  EXPECT_THAT(refusal(R"([a-z&&[^b]])"), HasSubstr("&& within a class"));
  EXPECT_THAT(refusal(R"([[:alpha:]])"), HasSubstr("[: within a class"));
  EXPECT_THAT(refusal(R"((a)\1)"), HasSubstr(R"(\1 is not known)"));
  EXPECT_THAT(refusal(R"(\bx)"), HasSubstr(R"(\b is not known)"));
  EXPECT_THAT(refusal(R"((?<name>x))"), HasSubstr("(?< is not known"));
  EXPECT_THAT(refusal(R"(\p{NoScript})"), HasSubstr("is not understood"));
  EXPECT_THAT(refusal(R"(\xe2)"), HasSubstr("is not known"));
  EXPECT_THAT(refusal("("), HasSubstr("is not understood"));
}

// Broken: a character that has no token would vanish from the text, as it does where nobody asks.
TEST(TokenizerJsonTest, TextWithoutATokenIsAnError) {
  Json json = FileNamed("no byte fallback");
  json["model"].erase("unk_token");
  const auto text = MustParse(json);
  EXPECT_THAT(IdsOf(*text, "the \xe2\x82\xac"), HasSubstr("U+20AC, for which model.vocab"));
  EXPECT_THAT(IdsOf(*text, "the \xff"), HasSubstr("the byte 255, for which model.vocab"));
  Json unigram = FileNamed("Unigram without bytes");
  unigram["model"]["unk_id"] = Json();
  EXPECT_THAT(IdsOf(*MustParse(unigram), "\xe2\x82\xac"), HasSubstr("there is no model.unk_id"));
  const auto fallback = MustParse(FileNamed("Yi"));
  const std::string bytes = IdsOf(*fallback, "\xe2\xff");
  EXPECT_EQ(bytes, absl::StrCat(*fallback->IdOf("<0xE2>"), " ", *fallback->IdOf("<0xFF>")));
}

// Broken: training would not start for a decoder that it does not need, or text come back wrong.
TEST(TokenizerJsonTest, ADecoderThatIsNotKnownStopsDecodingAlone) {
  Json json = FileNamed("Llama 2, Mistral v1, Mixtral, InternLM 2");
  json["decoder"] = {{"type", "CTC"}};
  const auto unknown = MustParse(json);
  std::vector<uint32_t> ids;
  ASSERT_TRUE(unknown->NewEncoder()->Encode("the sea", &ids).ok());
  EXPECT_THAT(std::string(unknown->Decode(ids).status().message()),
              HasSubstr("decoder \"CTC\" is not known here"));
  json = FileNamed("Llama 3");
  json["decoder"] = Json();  // its pre-tokenizer says enough
  EXPECT_EQ(*MustParse(json)->Decode(ids), *MustParse(FileNamed("Llama 3"))->Decode(ids));
}

// Broken: symbols at the ends of words would be those of their middle.
TEST(TokenizerJsonTest, WordsHaveEndsAndMiddles) {
  Json json = {{"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
               {"decoder", {{"type", "BPEDecoder"}, {"suffix", "</w>"}}}};
  json["model"] = {{"end_of_word_suffix", "</w>"},
                   {"vocab", {{"a", 0}, {"b", 1}, {"b</w>", 2}, {"a</w>", 3}, {"ab</w>", 4}}},
                   {"merges", Json::array({"a b</w>"})}};
  const auto ends = MustParse(json);
  EXPECT_EQ(IdsOf(*ends, "ab ba a"), "4 1 3 3");
  EXPECT_EQ(*ends->Decode({4, 1, 3, 3}), "ab ba a");
  json["model"] = {{"continuing_subword_prefix", "##"},
                   {"vocab", {{"a", 0}, {"b", 1}, {"##b", 2}, {"##a", 3}, {"ab", 4}}},
                   {"merges", Json::array({Json::array({"a", "##b"})})}};
  EXPECT_EQ(IdsOf(*MustParse(json), "ab ba aba"), "4 1 3 4 3");
}

}  // namespace
}  // namespace atolld
