#include "worker/data/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/file_io.h"
#include "worker/data/token_source.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

using Contents = std::map<std::string, std::string>;

Contents ReadFolder(const std::string& folder) {
  Contents contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    contents[std::filesystem::relative(entry.path(), folder)] =
        *ReadWholeFile(entry.path().string());
  }
  return contents;
}

class PrepareTest : public ::testing::Test {
 protected:
  PrepareTest() {
    std::filesystem::create_directory(folder_ / "text");
    // Several pieces: more than one of the piece's size, beside small ones.
    std::ofstream(folder_ / "text/a.txt") << SomeText(9u << 20);
    std::ofstream(folder_ / "text/b.txt") << "caf\xc3\xa9 at the end of the reef\n";
    std::ofstream(folder_ / "text/c.jsonl") << "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
    options_.input = folder_ / "text";
    options_.tokenizer = absl::StrCat(ATOLL_TOKENIZER_VECTORS, "/gpt2.json");
  }

  Contents Prepare(const std::string& name, uint32_t threads) {
    PrepareOptions options = options_;
    options.output = folder_ / name;
    options.threads = threads;
    const auto info = PrepareData(options);
    EXPECT_TRUE(info.ok()) << info.status();
    return ReadFolder(folder_ / name);
  }

  std::string Refused(PrepareOptions options) {
    const auto info = PrepareData(options);
    EXPECT_FALSE(info.ok());
    return std::string(info.status().message());
  }

  const TemporaryFolder folder_;
  PrepareOptions options_;
};

// Broken: two volunteers who prepare the same text would have data of different digests.
TEST_F(PrepareTest, AnyNumberOfThreadsGivesTheSameBytes) {
  const Contents one = Prepare("one", 1);
  EXPECT_EQ(one.size(), 4u);  // and nothing is left behind
  EXPECT_TRUE(one == Prepare("three", 3));
}

// Broken: a prepared folder would train another run than the text that it was made of.
TEST_F(PrepareTest, APreparedFolderIsTheTextItself) {
  for (const std::string& tokenizer :
       {options_.tokenizer, std::string("bytes"), std::string("chars")}) {
    options_.tokenizer = tokenizer;
    const std::string name = std::filesystem::path(tokenizer).filename();
    Prepare(name, 2);
    TokenSource::Options options;
    options.vocabulary = 1000;
    const auto prepared = TokenSource::Open(folder_ / name, options);
    options.tokenizer = tokenizer;
    const auto text = TokenSource::Open(folder_ / "text", options);
    ASSERT_TRUE(prepared.ok() && text.ok()) << prepared.status() << text.status();
    EXPECT_EQ((*prepared)->kind(), "prepared");
    EXPECT_EQ((*prepared)->digest(), (*text)->digest());
    EXPECT_EQ((*prepared)->train().size(), (*text)->train().size());
    EXPECT_EQ((*prepared)->tokenizer()->digest(), (*text)->tokenizer()->digest());
    const auto all = ReadWholeFile(folder_ / name + "/validation.bin");
    EXPECT_EQ(all->size(), (*text)->validation().size() * (*text)->validation().width());
  }
}

// Broken: ids of one tokenizer would be trained on, and shown, as those of another one.
TEST_F(PrepareTest, AFolderOfAnotherTokenizerIsRefused) {
  options_.input = folder_ / "text/b.txt";
  Prepare("bpe", 1);
  TokenSource::Options options;
  options.vocabulary = 1000;
  const auto open = [&](const std::string& name, const std::string& tokenizer) {
    options.tokenizer = tokenizer;
    return TokenSource::Open(folder_ / name, options).status();
  };
  EXPECT_TRUE(open("bpe", options_.tokenizer).ok());
  EXPECT_TRUE(open("bpe", "bytes").ok());  // what a config says that names none
  const absl::Status other = open("bpe", absl::StrCat(ATOLL_TOKENIZER_VECTORS, "/llama3.json"));
  EXPECT_TRUE(absl::IsInvalidArgument(other)) << other;
  EXPECT_THAT(std::string(other.message()),
              testing::AllOf(HasSubstr("bpe was prepared with tokenizer \"bpe\", SHA-256 "),
                             HasSubstr("llama3.json\", SHA-256 "),
                             HasSubstr("prepare the text anew with it")));
  EXPECT_FALSE(open("bpe", "chars").ok());
  options_.tokenizer = "bytes";
  Prepare("bytes", 1);
  EXPECT_TRUE(open("bytes", "bytes").ok());
  EXPECT_THAT(
      std::string(open("bytes", absl::StrCat(ATOLL_TOKENIZER_VECTORS, "/gpt2.json")).message()),
      HasSubstr("bytes was prepared with tokenizer \"bytes\"; the one that is named"));
  options.ready = MakeByteTokenizer();
  EXPECT_FALSE(open("bpe", "bytes").ok());
  EXPECT_TRUE(open("bytes", "bytes").ok());
}

// Broken: work that was killed would be lost, or leave other bytes than work that was not.
TEST_F(PrepareTest, KilledAtAnyInstantItEndsWithTheSameBytes) {
  const Contents whole = Prepare("whole", 1);
  const std::string output = folder_ / "killed";
  PrepareOptions options = options_;
  options.output = output;
  options.threads = 2;
  int killed = 0, ended = 0;
  // Each time a little later, until it is done before the signal comes.
  for (useconds_t microseconds = 500; ended < 2 && killed < 400; microseconds += 2500) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(PrepareData(options).ok() ? 0 : 1);
    ::usleep(microseconds);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      ++killed;
      // data.json says that all is whole.
      if (std::filesystem::exists(output + "/data.json")) {
        TokenSource::Options read;
        read.vocabulary = 1000;
        EXPECT_TRUE(TokenSource::Open(output, read).ok());
      }
    } else {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      ++ended;
    }
  }
  EXPECT_GE(killed, 5);
  ASSERT_GE(ended, 1);
  EXPECT_TRUE(ReadFolder(output) == whole);
}

// Broken: what an earlier call had done would be done again, or a piece of other text be taken for
// this one's.
TEST_F(PrepareTest, GoesOnWithThePiecesOfTheSameTextAlone) {
  const std::string output = folder_ / "out";
  PrepareOptions options = options_;
  options.output = output;
  // A file that cannot be put where it belongs stops it once the pieces are there.
  std::filesystem::create_directories(output + "/train.bin.new/x");
  EXPECT_THAT(Refused(options), HasSubstr("train.bin.new"));
  std::filesystem::remove_all(output + "/train.bin.new");
  std::ofstream(folder_ / "text/b.txt") << "caf\xc3\xa9 at the END of the reef\n";
  uint64_t found = 0, all = 0;
  options.progress = [&](uint64_t, uint64_t bytes, uint64_t before) {
    all = bytes;
    found = before;
  };
  ASSERT_TRUE(PrepareData(options).ok());
  // The last of a.txt, with which the small files behind it are encoded, and no more.
  EXPECT_GT(all - found, 29u);
  EXPECT_LT(all - found, 4u << 20);
  EXPECT_TRUE(ReadFolder(output) == Prepare("again", 1));
}

// Broken: a folder of other things would be overwritten, or bad text be half prepared.
TEST_F(PrepareTest, RefusesInOneLine) {
  PrepareOptions options = options_;
  options.output = folder_ / "out";
  options.validation_fraction = 0.7;
  EXPECT_THAT(Refused(options), HasSubstr("--validation-fraction is 0.7"));
  options.validation_fraction = 0.1;
  options.output = folder_ / "text";
  EXPECT_THAT(Refused(options), HasSubstr("which is not part of this preparation"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "text/pieces"));  // nothing is left there
  options.output = folder_ / "text/tokens";
  EXPECT_THAT(Refused(options), HasSubstr("what is made would be taken for text"));
  EXPECT_FALSE(std::filesystem::exists(options.output));
  std::filesystem::create_directories(folder_ / "others");
  std::ofstream(folder_ / "others/train.bin") << "precious";  // nanoGPT's name for it
  options.output = folder_ / "others";
  EXPECT_THAT(Refused(options),
              HasSubstr("holds train.bin, which is not part of this preparation"));
  Prepare("done", 1);
  options.output = folder_ / "done";
  options.validation_fraction = 0.2;
  EXPECT_THAT(Refused(options), HasSubstr("done/data.json is of another preparation"));
  options = options_;
  options.output = folder_ / "bad";
  std::ofstream(folder_ / "text/d.txt") << "caf\xe9";
  EXPECT_THAT(Refused(options), HasSubstr("d.txt is not UTF-8 at byte 3"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bad/data.json"));
}

// Broken: nobody would learn what stands between the documents, how many lines were skipped, or
// that a second call left them uncounted.
TEST_F(PrepareTest, SaysWhatStandsBetweenDocumentsAndWhatItSkipped) {
  std::ofstream(folder_ / "text/d.jsonl") << "{\"text\": 1}\n{\"text\": \"x\"}\nno\n\n{}\n[]\n";
  PrepareOptions options = options_;
  options.output = folder_ / "out";
  EXPECT_THAT(Refused(options), HasSubstr("d.jsonl: line 1 has a number under \"text\""));
  options.skip_bad_lines = true;
  std::filesystem::create_directories(options.output + "/train.bin.new/x");
  EXPECT_THAT(Refused(options), HasSubstr("train.bin.new"));  // the batches are there
  std::filesystem::remove_all(options.output + "/train.bin.new");
  const auto prepared = PrepareData(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->info.bad_lines, 4u);
  EXPECT_EQ(ReadPreparedInfo(options.output)->bad_lines, 4u);
  EXPECT_EQ(prepared->info.end_of_text, "<|endoftext|>");
  EXPECT_THAT(prepared->notes, testing::Contains(HasSubstr("between two documents stands token")));
  EXPECT_THAT(prepared->notes, testing::Contains(HasSubstr("4 bad lines were skipped")));
}

// Broken: damaged data would be trained on, or the owner not told which file is damaged.
TEST_F(PrepareTest, DamageIsNamed) {
  std::filesystem::remove(folder_ / "text/a.txt");
  const Contents whole = Prepare("out", 1);
  const auto opened = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / "out/" + name, std::ios::binary) << bytes;
    TokenSource::Options options;
    options.vocabulary = 1000;
    const absl::Status status = TokenSource::Open(folder_ / "out", options).status();
    std::ofstream(folder_ / "out/" + name, std::ios::binary) << whole.at(name);
    EXPECT_FALSE(status.ok()) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("out/" + name));
    return std::string(status.message());
  };
  std::string train = whole.at("train.bin");
  EXPECT_THAT(opened("train.bin", train + "x"), HasSubstr("in the middle of a token"));
  EXPECT_THAT(opened("train.bin", train + "xx"), HasSubstr("tokens, not "));
  train[1] = '\x7f';
  EXPECT_THAT(opened("train.bin", train), HasSubstr("at byte 0; the vocabulary has"));
  train = whole.at("train.bin");
  train[0] = static_cast<char>(train[0] ^ 1);
  EXPECT_THAT(opened("train.bin", train), HasSubstr("SHA-256"));
  EXPECT_THAT(opened("validation.bin", ""), HasSubstr("it has 0 tokens, not "));
  EXPECT_THAT(opened("tokenizer.json", whole.at("tokenizer.json") + " "), HasSubstr("SHA-256"));
  EXPECT_THAT(opened("data.json", "{"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(opened("data.json", "{\"format\": 9}"), HasSubstr("is of format 9"));
  EXPECT_THAT(opened("data.json", "{\"format\": 1}"), HasSubstr("\"tokenizer\" must be a text"));
}

}  // namespace
}  // namespace atolld
