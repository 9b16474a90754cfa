#include "worker/data/conversations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/utf8.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/token_source.h"
#include "worker/data/tokenizer_file.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A token a byte, in the order of GPT-2's table, and the tokens of both templates behind them.
std::string ByteLevelTokenizer() {
  std::string vocabulary;
  uint32_t other = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool shown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    std::string written;
    AppendUtf8(shown ? byte : other++, &written);
    if (byte == '"' || byte == '\\') written = absl::StrCat("\\", written);
    absl::StrAppend(&vocabulary, byte == 0 ? "" : ", ", "\"", written, "\": ", byte);
  }
  std::string added;
  uint32_t id = 256;
  for (const char* token :
       {"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
        "<|end_header_id|>", "<|eot_id|>", "<|endoftext|>"}) {
    absl::StrAppend(&added, id == 256 ? "" : ", ", "{\"id\": ", id, ", \"content\": \"", token,
                    "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                    "\"normalized\": false, \"special\": true}");
    ++id;
  }
  return absl::StrCat(
      "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [", added,
      "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
      "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, "
      "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": "
      "\"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null, "
      "\"end_of_word_suffix\": null, \"fuse_unk\": false, \"vocab\": {",
      vocabulary, "}, \"merges\": []}}");
}

class ConversationsTest : public ::testing::Test {
 protected:
  ConversationsTest() {
    std::ofstream(folder_ / "tokenizer.json") << ByteLevelTokenizer();
    options_.kind = "chat";
    options_.validation_fraction = 0;
    options_.tokenizer = folder_ / "tokenizer.json";
    options_.vocabulary = 300;
    options_.chat.template_name = "chatml";
  }

  absl::StatusOr<std::unique_ptr<TokenSource>> Open(const std::string& lines) {
    std::ofstream(folder_ / "a.jsonl") << lines;
    return TokenSource::Open(folder_ / "a.jsonl", options_);
  }

  // What the tokens say, with [] around what is learnt.
  std::string Shown(const std::string& lines) {
    const auto source = Open(lines);
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return "";
    const TokenSpan& tokens = (*source)->train();
    const TokenMarks& marks = *(*source)->train_marks();
    EXPECT_EQ(marks.learnt.size(), tokens.size());
    EXPECT_EQ(marks.begins.back(), tokens.size());
    std::string text;
    for (uint64_t i = 0; i < tokens.size(); ++i) {
      const bool before = i > 0 && marks.learnt[i - 1];
      if (before != marks.learnt[i]) text += before ? "]" : "[";
      text += *(*source)->tokenizer()->Decode({static_cast<uint32_t>(tokens.at(i))});
    }
    return text + (!marks.learnt.empty() && marks.learnt.back() ? "]" : "");
  }

  std::string Wrong(const std::string& lines) {
    return std::string(Open(lines).status().message());
  }

  const TemporaryFolder folder_;
  TokenSource::Options options_;
};

constexpr char kHello[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, "
    "{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yes\"}, "
    "{\"role\": \"user\", \"content\": \"so?\"}, {\"role\": \"assistant\", \"content\": \" no\\n\"}"
    "]}\n";

// Broken: a model would be fine-tuned on other strings than those that it is asked with, or learn
// to ask.
TEST_F(ConversationsTest, ChatMlIsAsPublished) {
  EXPECT_EQ(Shown(kHello),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
            "<|im_start|>assistant\n[yes<|im_end|>]\n<|im_start|>user\nso?<|im_end|>\n"
            "<|im_start|>assistant\n[ no\n<|im_end|>]\n");
  options_.chat.learn_all = true;
  EXPECT_THAT(Shown(kHello), HasSubstr("[<|im_start|>system\nBe brief."));
}

TEST_F(ConversationsTest, Llama3IsAsPublished) {
  options_.chat.template_name = "llama3";
  EXPECT_EQ(Shown(kHello),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n[yes<|eot_id|>]"
            "<|start_header_id|>user<|end_header_id|>\n\nso?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n[no<|eot_id|>]");
}

// Broken: a completion would have no end, or its prompt be learnt.
TEST_F(ConversationsTest, ACompletionIsLearntToItsEnd) {
  options_.chat.template_name = "";
  const std::string pair = "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n";
  EXPECT_EQ(Shown(pair + pair), "2+2=[4<|endoftext|>]2+2=[4<|endoftext|>]");
  options_.tokenizer = "bytes";
  EXPECT_EQ(Shown(pair), "2+2=[4\n]");
  // With a template they are a question and its answer.
  options_.tokenizer = folder_ / "tokenizer.json";
  options_.chat.template_name = "chatml";
  EXPECT_EQ(Shown(pair),
            "<|im_start|>user\n2+2=<|im_end|>\n<|im_start|>assistant\n[4<|im_end|>]\n");
  EXPECT_EQ(Shown("{\"prompt\": [{\"role\": \"assistant\", \"content\": \"a\"}], "
                  "\"completion\": [{\"role\": \"assistant\", \"content\": \"b\"}]}"),
            "<|im_start|>assistant\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n");
}

// Broken: an answer that its owner marked as wrong would be learnt, or a call of a tool be learnt
// as an empty answer.
TEST_F(ConversationsTest, EveryKeyIsUsedToldOrRefused) {
  EXPECT_EQ(Shown("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0}, "
                  "{\"role\": \"assistant\", \"content\": \"b\", \"weight\": 1}]}"),
            "<|im_start|>assistant\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n");
  const std::string with_id =
      "{\"id\": 7, \"empty\": [], \"messages\": [{\"role\": \"assistant\", "
      "\"content\": \"a\", \"name\": \"Ada\"}]}\n";
  const auto source = Open(with_id + with_id + kHello);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT((*source)->notes(), Contains("\"id\" is not trained on; 2 records have it"));
  EXPECT_THAT((*source)->notes(),
              Contains("\"name\" of a message is not trained on; 2 records have it"));
  const std::string call =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": "
      "\"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"c1\"}]}]}\n";
  EXPECT_THAT(Wrong(kHello + call),
              HasSubstr("line 2 has in message 2 of \"messages\" \"tool_calls\", which no [data] "
                        "template writes; a model of kind \"huggingface\""));
  options_.skip_bad_lines = true;
  EXPECT_THAT((*Open(kHello + call))->notes(), Contains(HasSubstr("1 bad line was skipped")));
}

// Broken: joined conversations would be one long one.
TEST_F(ConversationsTest, JoinedOnesHaveAnEndBetweenThem) {
  options_.chat.joined = true;
  const std::string one = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
  EXPECT_EQ(Shown(one + one),
            "<|im_start|>assistant\n[a<|im_end|>]\n<|endoftext|><|im_start|>assistant\n"
            "[a<|im_end|>]\n");
}

// Broken: a held-out conversation would be trained on in part.
TEST_F(ConversationsTest, AreSplitWhole) {
  options_.validation_fraction = 0.3;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += kHello;
  const auto source = Open(lines);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->train_marks()->conversations(), 7u);
  EXPECT_EQ((*source)->validation_marks()->conversations(), 3u);
  EXPECT_EQ((*source)->validation_marks()->begins.back(), (*source)->validation().size());
  EXPECT_EQ((*source)->train().at(0), (*source)->validation().at(0));
  EXPECT_THAT((*source)->notes(), Contains(HasSubstr("10 conversations; ")));
  EXPECT_THAT((*source)->notes(), Contains(HasSubstr("3 of 3 conversations of the validation part "
                                                     "stand in the training part too")));
  // What is learnt is part of what the run trains on.
  const std::string digest = (*source)->digest();
  options_.chat.learn_all = true;
  EXPECT_NE((*Open(lines))->digest(), digest);
}

// Broken: nobody would learn why a line cannot be trained on, or a template would be spelled out in
// letters that the model never saw.
TEST_F(ConversationsTest, WhatIsWrongIsNamed) {
  const std::string good = kHello;
  const auto line2 = [&](const std::string& record) { return Wrong(good + record + "\n"); };
  EXPECT_THAT(line2("{\"text\": \"x\"}"),
              HasSubstr("a.jsonl: line 2 has neither \"messages\" nor \"prompt\" and "
                        "\"completion\"; it has \"text\""));
  EXPECT_THAT(line2("{\"messages\": \"x\"}"),
              HasSubstr("has a text under \"messages\", not a list"));
  EXPECT_THAT(line2("{\"messages\": []}"), HasSubstr("line 2 has no message"));
  EXPECT_THAT(line2("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}"),
              HasSubstr("has no message of the role \"assistant\": nothing to learn"));
  EXPECT_THAT(line2("{\"messages\": [{\"role\": \"user\", \"content\": null}]}"),
              HasSubstr("line 2 has in message 1 of \"messages\" null under \"content\""));
  EXPECT_THAT(line2("{\"messages\": [{\"from\": \"human\"}]}"),
              HasSubstr("has in message 1 of \"messages\" no \"role\"; it has \"from\""));
  EXPECT_THAT(line2("{\"prompt\": \"x\", \"completion\": \"\"}"), HasSubstr("nothing to learn"));
  options_.skip_bad_lines = true;
  const auto skipped = Open(good + "{}\n" + good);
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  EXPECT_THAT((*skipped)->notes(), Contains(HasSubstr("1 bad line was skipped: ")));
  EXPECT_EQ((*skipped)->train_marks()->conversations(), 2u);
  EXPECT_THAT(Wrong("{}\n"), HasSubstr("holds no conversation: 1 bad line was skipped"));
  options_.skip_bad_lines = false;

  options_.chat.template_name = "";
  EXPECT_THAT(Wrong(good), HasSubstr("set [data] template (--template) to \"chatml\""));
  options_.chat.template_name = "chatmi";
  EXPECT_THAT(Wrong(good),
              HasSubstr("data.template \"chatmi\" is not known; known: chatml, llama3"));
  options_.chat.template_name = "chatml";
  options_.tokenizer = absl::StrCat(ATOLL_TOKENIZER_VECTORS, "/gpt2.json");
  options_.vocabulary = 1000;
  EXPECT_THAT(Wrong(good), HasSubstr("template \"chatml\" needs the token <|im_start|>, and"));
  // Text is looked for as before, and says what else the record may be.
  options_.kind = "text";
  EXPECT_THAT(Wrong(good), HasSubstr("to train on conversations set [data] template"));
}

// Broken: a chat model would be asked in another form than it was trained with.
TEST(ChatTemplateTest, AsksForAnAnswer) {
  EXPECT_EQ(AskByTemplate("chatml", "hi")->text,
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(AskByTemplate("chatml", "hi")->stop, "<|im_end|>");
  EXPECT_EQ(AskByTemplate("llama3", " hi ")->text,
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(AskByTemplate("llama3", "hi")->stop, "<|eot_id|>");
  EXPECT_FALSE(AskByTemplate("", "hi").ok());
}

}  // namespace
}  // namespace atolld
