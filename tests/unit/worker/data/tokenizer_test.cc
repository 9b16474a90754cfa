#include "worker/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/worker/training/fixtures.h"
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
    const auto text_files = OpenTextFiles(path, {});
    ASSERT_TRUE(text_files.ok()) << text_files.status();
    const std::vector<TextFile>& files = text_files->files;
    std::vector<uint32_t> tokens;
    const auto pieces = CutText(files, *tokenizer, 100);
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    EXPECT_GT(pieces->size(), 50u);
    const auto encoder = tokenizer->NewEncoder();
    BadLines bad;
    for (const TextPiece& piece : *pieces) {
      ASSERT_TRUE(EncodePiece(files, piece, {}, *tokenizer, *encoder, &bad, &tokens).ok());
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
            "U+007A at byte 2 is not one of the tokenizer's characters");
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

nlohmann::json Gpt2Json() { return nlohmann::json::parse(*ReadWholeFile(Vectors("gpt2.json"))); }

std::unique_ptr<Tokenizer> Parsed(const nlohmann::json& json) {
  auto tokenizer = ParseTokenizer("made", json.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

nlohmann::json ByteLevel(bool prefix, bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", regex}};
}

nlohmann::json InSequence(std::vector<nlohmann::json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// Broken: a ByteLevel that is not first in its Sequence would put its space before the text alone,
// where Hugging Face puts one before each piece that it is given.
TEST(TokenizerTest, APrefixSpaceGoesBeforeEachPieceOfTheStepBefore) {
  nlohmann::json json = Gpt2Json();
  json["pre_tokenizer"] = ByteLevel(false, true);
  const auto plain = Parsed(json);
  const auto pieces = [&](const std::vector<std::string>& texts) {
    std::vector<uint32_t> all;
    for (const std::string& text : texts) {
      const std::vector<uint32_t> tokens = Encode(*plain, text);
      all.insert(all.end(), tokens.begin(), tokens.end());
    }
    return all;
  };
  const std::string text = "the sea 12 x2 call";
  const nlohmann::json digits = {{"type", "Digits"}, {"individual_digits", true}};
  json["pre_tokenizer"] = InSequence({digits, ByteLevel(true, true)});
  EXPECT_EQ(Encode(*Parsed(json), text), pieces({" the sea ", " 1", " 2", " x", " 2", " call"}));
  json["pre_tokenizer"] = InSequence({digits, ByteLevel(false, true)});
  EXPECT_EQ(Encode(*Parsed(json), text), pieces({"the sea ", "1", "2", " x", "2", " call"}));
  const nlohmann::json split = {{"type", "Split"},
                                {"pattern", {{"Regex", "x[0-9]"}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
  json["pre_tokenizer"] = InSequence({split, ByteLevel(true, true)});
  EXPECT_EQ(Encode(*Parsed(json), text), pieces({" the sea 12 ", " x2", " call"}));
  json["pre_tokenizer"] = ByteLevel(true, true);
  EXPECT_EQ(Encode(*Parsed(json), text), pieces({" the sea 12 x2 call"}));
  json["pre_tokenizer"] = InSequence({ByteLevel(true, true), ByteLevel(true, true)});
  EXPECT_THAT(std::string(ParseTokenizer("made", json.dump()).status().message()),
              HasSubstr("two ByteLevel"));
}

// Broken: what stands behind a ByteLevel would see the text, where Hugging Face shows it GPT-2's
// letters for the bytes: those of U+00BD's are a letter and a number.
TEST(TokenizerTest, StepsBehindAByteLevelSeeItsAlphabet) {
  nlohmann::json json = Gpt2Json();
  json["pre_tokenizer"] = ByteLevel(false, true);
  const auto plain = Parsed(json);
  json["pre_tokenizer"] =
      InSequence({ByteLevel(false, true), {{"type", "Digits"}, {"individual_digits", true}}});
  const auto digits = Parsed(json);
  const std::string half = "\xc2\xbd";
  std::vector<uint32_t> expected = Encode(*plain, half.substr(0, 1));
  const std::vector<uint32_t> second = Encode(*plain, half.substr(1));
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(Encode(*digits, half), expected);
  EXPECT_EQ(*digits->Decode(Encode(*digits, "1\xc2\xbd sea")), "1\xc2\xbd sea");
}

// Broken: files would be refused for parts that do nothing, or for keys that old ones do not have.
TEST(TokenizerTest, PartsThatDoNothingAreNoObstacle) {
  const auto good = Load(Vectors("gpt2.json"));
  const std::string text = "the sea is old";
  nlohmann::json json = Gpt2Json();
  json["model"].erase("type");
  json["model"]["dropout"] = 0.0;
  json["model"]["end_of_word_suffix"] = "";
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", nlohmann::json::array()}};
  json["added_tokens"][0]["lstrip"] = true;
  const auto tokenizer = Parsed(json);
  EXPECT_EQ(Encode(*tokenizer, text), Encode(*good, text));
  const std::string added = json["added_tokens"][0]["content"];
  EXPECT_EQ(Encode(*tokenizer, "a  " + added), Encode(*good, "a" + added));

  json["model"]["vocab"].erase("\u00c0");  // the byte 192, which no UTF-8 has
  json["added_tokens"] = nlohmann::json::array();
  json["normalizer"] = {{"type", "NFC"}};
  const auto composed = Parsed(json);
  EXPECT_EQ(Encode(*composed, "cafe\xcc\x81"), Encode(*good, "caf\xc3\xa9"));
  std::vector<uint32_t> tokens;
  EXPECT_THAT(std::string(composed->NewEncoder()->Encode("\xc0", &tokens).message()),
              HasSubstr("the byte 192, for which model.vocab has no token"));
}

// Broken: between two documents a newline would stand, or the end of another tokenizer, without a
// word.
TEST(TokenizerTest, TheFilesBesideATokenizerSayWhatEndsAText) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const nlohmann::json& json) {
    std::ofstream(folder / name) << json.dump();
  };
  nlohmann::json json = Gpt2Json();
  const auto ids = static_cast<uint32_t>(json["model"]["vocab"].size());
  json["added_tokens"] = nlohmann::json::array();
  for (const char* name : {"[EOS]", "<|im_end|>", "<stop>"}) {
    json["added_tokens"].push_back({{"id", ids + json["added_tokens"].size()}, {"content", name}});
  }
  write("tokenizer.json", json);
  const auto end = [&](const std::string& wanted = "") {
    const auto tokenizer = LoadTokenizer(folder / "tokenizer.json", wanted);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    const Separator& separator = (*tokenizer)->separator();
    return absl::StrCat(separator.text, " by ", separator.said_by);
  };
  EXPECT_EQ(end(), "[EOS] by its name");
  write("generation_config.json", {{"eos_token_id", {ids + 2, 1}}});
  EXPECT_EQ(end(), "<stop> by generation_config.json");
  write("special_tokens_map.json", {{"eos_token", {{"content", "[EOS]"}}}});
  EXPECT_EQ(end(), "[EOS] by special_tokens_map.json");
  write("tokenizer_config.json", {{"eos_token", "<|im_end|>"}});
  EXPECT_EQ(end(), "<|im_end|> by tokenizer_config.json");
  write("tokenizer_config.json", {{"eos_token", "<of another>"}});
  EXPECT_EQ(end(), "[EOS] by special_tokens_map.json");
  EXPECT_EQ(end("<stop>"), "<stop> by end_of_text");
  EXPECT_TRUE(LoadTokenizer(folder.path()).ok());  // a folder is the file in it
  EXPECT_THAT(std::string(LoadTokenizer(folder / "tokenizer.json", "<none>").status().message()),
              HasSubstr("end_of_text is \"<none>\""));
  EXPECT_THAT(Describe(MakeByteTokenizer()->separator()), HasSubstr("a newline, since"));
}

// Broken: a model whose tokenizer.json has a part that is not known would be refused although the
// tokenizer.model beside it says the same.
TEST(TokenizerTest, ASentencePieceModelStandsInForAnUnknownFile) {
  const TemporaryFolder folder;
  nlohmann::json json = Gpt2Json();
  json["normalizer"] = {{"type", "Precompiled"}};
  std::ofstream(folder / "tokenizer.json") << json.dump();
  EXPECT_FALSE(LoadTokenizer(folder / "tokenizer.json").ok());
  std::ofstream(folder / "tokenizer.model", std::ios::binary)
      << *ReadWholeFile(Vectors("sentencepiece.model"));
  const auto tokenizer = LoadTokenizer(folder / "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->kind(), "sentencepiece");
  EXPECT_THAT((*tokenizer)->note(), HasSubstr("Precompiled"));
  EXPECT_THAT((*tokenizer)->note(), HasSubstr("tokenizer.model is used in its place"));
  EXPECT_TRUE((*tokenizer)->IdOf("</s>").has_value());
  EXPECT_FALSE((*tokenizer)->IdOf("</no such piece>").has_value());
}

// Broken: a model would be trained on from its weights with the ids of another tokenizer, which are
// other words.
TEST(TokenizerTest, TheTokenizerBesideAModelIsTheDatas) {
  const TemporaryFolder folder;
  const std::string model = folder / "model.safetensors", file = folder / "tokenizer.json";
  const auto fault = [&](const Tokenizer* tokenizer) {
    return std::string(CheckTokenizerBeside("initial", model, tokenizer).message());
  };
  const auto bytes = Load("bytes"), gpt2 = Load(Vectors("gpt2.json")),
             pieces = Load(Vectors("sentencepiece.model"));
  EXPECT_EQ(fault(bytes.get()), "") << "the folder has none";
  std::ofstream(file, std::ios::binary) << *ReadWholeFile(Vectors("llama3.json"));
  const std::string there = absl::BytesToHexString(Load(file)->digest());
  EXPECT_EQ(
      fault(gpt2.get()),
      absl::StrCat("initial: ", file, ", the tokenizer of ", model, ", has SHA-256 ", there,
                   "; the data's tokenizer is \"bpe\", SHA-256 ",
                   absl::BytesToHexString(gpt2->digest()), ": set [data] tokenizer = \"", file,
                   "\" and prepare the data with it, or remove that file if it is not the "
                   "model's"));
  EXPECT_THAT(fault(bytes.get()), HasSubstr("; the data's tokenizer is \"bytes\": set [data]"));
  EXPECT_EQ(fault(Load(file).get()), "");
  EXPECT_EQ(fault(nullptr), "") << "token files do not say what made them";
  EXPECT_TRUE(CheckTokenizerBeside("base", "", bytes.get()).ok()) << "no model is named";
  // Either of a folder's files may have made the data.
  std::ofstream(folder / "tokenizer.model", std::ios::binary) << pieces->file();
  EXPECT_EQ(fault(pieces.get()), "");
  EXPECT_EQ(fault(Load(file).get()), "");
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
  EXPECT_THAT(message("no model"), HasSubstr("neither a tokenizer.json nor a SentencePiece"));
  EXPECT_THAT(changed("/model/type", "WordPiece"), HasSubstr("model.type is \"WordPiece\""));
  EXPECT_THAT(changed("/normalizer", {{"type", "Nmt"}}),
              HasSubstr("normalizer \"Nmt\" is not known here"));
  EXPECT_THAT(changed("/pre_tokenizer/type", "FixedLength"), HasSubstr("\"FixedLength\""));
  EXPECT_THAT(changed("/model/merges/3", "x"), HasSubstr("model.merges[3] is not two tokens"));
  EXPECT_THAT(changed("/model/merges/3", "t zzzz"), HasSubstr("model.merges[3] names a token"));
  EXPECT_THAT(changed("/model/vocab", {{"a", 0}}), HasSubstr("names a token that model.vocab"));
  EXPECT_THAT(changed("/model/vocab/a", -1), HasSubstr("the id of \"a\""));
  EXPECT_THAT(changed("/model/dropout", 0.5), HasSubstr("model.dropout is not 0"));
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
