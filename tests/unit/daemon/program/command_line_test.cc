#include "daemon/program/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

Outcome CallAtoll(std::vector<std::string> words) {
  CommandLine command_line;
  AddAllVerbs(command_line);
  words.insert(words.begin(), "atoll");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = command_line.Run(static_cast<int>(argv.size()), argv.data());
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

// Broken: an error that quotes a file's name, or a coordinator, commands the terminal.
TEST(CommandLineTest, AnErrorIsALineWhateverItQuotes) {
  const auto told = [](const absl::Status& status) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(kWrongCall, atolld::Report(status));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ("a b: \\x1b[2J \\xff\\u202e\n",
            told(absl::InvalidArgumentError("a\nb: \x1b[2J \xff\xe2\x80\xae")));
  EXPECT_THAT(CallAtoll({"x\x1b[2Jy"}).err,
              ::testing::StartsWith("atoll: unknown verb 'x\\x1b[2Jy'; "));
  testing::internal::CaptureStdout();
  PrintLines({"run \x1b]0;owned\x07", "ends\n"});
  EXPECT_EQ("run \\x1b]0;owned\\x07\nends\n", testing::internal::GetCapturedStdout());
}

TEST(CommandLineTest, WrongCallsAreOneLineAndCode2) {
  // Broken: somebody who mistypes would get a page of help, or a script would take a wrong call for
  // a failed run.
  const std::vector<std::pair<std::vector<std::string>, std::string>> calls = {
      {{"locla"}, "atoll: unknown verb 'locla'; did you mean 'local'?\n"},
      {{"run", "shwo"}, "atoll run: unknown verb 'shwo'; did you mean 'show'?\n"},
      {{"run"},
       "atoll run: a verb is needed: show, watch, diagnose, metrics, pause, resume, stop, "
       "branch, publish\n"},
      {{"peer", "evcit", "a"}, "atoll peer: unknown verb 'evcit'; did you mean 'evict'?\n"},
      {{"peer", "drain"}, "atoll peer drain: PEER is required\n"},
      {{"limits"}, "atoll limits: a verb is needed: show, set\n"},
      {{"limits", "set"}, "atoll limits set: LIMIT is required\n"},
      {{"store", "migrate", "--config", "x"},
       "atoll store migrate: give --to, the config that names the new store, or --undo\n"},
      {{"run", "show", "--jsn"},
       "atoll run show: unknown option '--jsn'; did you mean '--json'?\n"},
      {{"local", "--confg=x.toml"},
       "atoll local: unknown option '--confg'; did you mean '--config'?\n"},
      {{"local"},
       "atoll local: give --config FILE to begin a run, or --dir DIR to go on with the one "
       "there\n"},
      {{"local", "--config=x.toml", "--data", ""}, "atoll local: --data: it is empty\n"},
      {{"config", "validate", "a.toml", "b.toml"},
       "atoll config validate: 'b.toml' is one argument too many\n"},
  };
  for (const auto& [words, message] : calls) {
    const Outcome outcome = CallAtoll(words);
    EXPECT_EQ(outcome.code, kWrongCall);
    EXPECT_EQ(outcome.err, message);
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(CommandLineTest, AValueThatIsNoneSaysWhatIsWanted) {
  // Broken: who typed "ten" or one zero too many would have to guess what the program did not like,
  // and "010" would be 8.
  const std::vector<std::pair<std::vector<std::string>, std::string>> calls = {
      {{"local", "--config", "x", "--rounds", "ten"},
       "atoll local: --rounds: 'ten' is not a whole number\n"},
      {{"local", "--config", "x", "--peers=1.5"},
       "atoll local: --peers: '1.5' is not a whole number\n"},
      {{"local", "--config", "x", "--peers", "-1"},
       "atoll local: --peers: '-1' is below 0, the least that is allowed\n"},
      {{"local", "--config", "x", "--port", "99999"},
       "atoll local: --port: '99999' is not within 0 to 65535\n"},
      {{"plan", "--config", "x", "--peers", "99999999999"},
       "atoll plan: --peers: '99999999999' is above 4294967295, the largest that is allowed\n"},
      {{"plan", "--config", "x", "--encode", "fast"},
       "atoll plan: --encode: 'fast' is not a number\n"},
      {{"plan", "--config", "x", "--encode", "0"}, "atoll plan: --encode: '0' is not above 0\n"},
      {{"generate", "--dir", "x", "--prompt", "y", "--temperature", "nan"},
       "atoll generate: --temperature: 'nan' is not a number\n"},
      {{"data", "inspect", "x", "--kind", "plian"},
       "atoll data inspect: --kind: 'plian' is not one of text, plain, jsonl, chat, bin, npy, "
       "prepared; did you mean 'plain'?\n"},
      {{"local", "--config"}, "atoll local: --config needs a value\n"},
      {{"local", "--config", "x", "--config", "y"},
       "atoll local: --config is given more than once\n"},
      {{"run", "show", "--coordinator", "a:1", "--dir", "b"},
       "atoll run show: --coordinator excludes --dir\n"},
      {{"config", "validate", "/none/such.toml", "--for", "010"},
       "atoll config validate: --for: '010' is not one of any, local, coordinator, peer\n"},
      {{"plan", "--config", "/none/such.toml", "--peers", "010"},
       "/none/such.toml: there is no such file\n"},
      {{"plan", "--config", "/none/such.toml", "--rate", "fast"},
       "/none/such.toml: there is no such file\n"},
      {{"pause", "--for", "soon"},
       "--for 'soon': a time with its unit, from 1s to a year, as in 30m or 3h\n"},
      {{"token", "create", "--valid", "soon"},
       "--valid 'soon': a time with its unit, as in 24h or 30m\n"},
  };
  for (const auto& [words, message] : calls) {
    const Outcome outcome = CallAtoll(words);
    EXPECT_EQ(outcome.code, kWrongCall);
    EXPECT_EQ(outcome.err, message);
    EXPECT_EQ(outcome.out, "");
  }
}

// The words of a command as a shell splits it, up to what it does with the output.
std::vector<std::string> Words(const std::string& command) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (const char c : command + " ") {
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && c == ' ') {
      if (!word.empty()) words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  return words;
}

TEST(CommandLineTest, EveryVerbHasHelpWithAnExampleThatParses) {
  // Broken: the surest way to learn a verb, its example, would be missing or be refused.
  CommandLine command_line;
  AddAllVerbs(command_line);
  const VerbPage page = command_line.Page();
  EXPECT_GT(Leaves(page).size(), 30u);
  for (const VerbPage* verb : Leaves(page)) {
    std::vector<std::string> words = Words(verb->path);
    words.erase(words.begin());
    words.emplace_back("--help");
    const Outcome help = CallAtoll(words);
    EXPECT_EQ(help.code, kDone);
    EXPECT_THAT(help.out, HasSubstr(absl::StrCat("\nExample:\n  ", verb->example, "\n")));
    EXPECT_THAT(verb->example, ::testing::StartsWith(verb->path + " "));

    std::vector<std::string> example = Words(verb->example.substr(0, verb->example.find(" >")));
    const size_t inner = verb->example.find("$(");
    if (inner != std::string::npos) {
      example = Words(verb->example.substr(0, inner));
      example.emplace_back("SERIAL");
    }
    example.erase(example.begin());
    example.emplace_back("--help");  // parsed first, and nothing runs
    std::vector<std::string> wrong = example;
    wrong.back() = "--no-such-option";
    EXPECT_EQ(CallAtoll(example).code, kDone) << verb->example;
    EXPECT_THAT(CallAtoll(wrong).err, HasSubstr("unknown option '--no-such-option'"))
        << verb->example;
  }
}

TEST(CommandLineTest, HelpIsAVerb) {
  // Broken: the three ways in which people ask for help would not be answered, or as an error.
  const Outcome bare = CallAtoll({});
  EXPECT_EQ(bare.code, kDone);
  EXPECT_THAT(bare.out, HasSubstr("  run show "));
  EXPECT_EQ(bare.err, "");
  EXPECT_EQ(CallAtoll({"help"}).out, bare.out);
  EXPECT_EQ(CallAtoll({"--help"}).out, bare.out);
  EXPECT_EQ(CallAtoll({"help", "run", "show"}).out, CallAtoll({"run", "show", "--help"}).out);
  EXPECT_EQ(CallAtoll({"help", "run"}).out, CallAtoll({"run", "--help"}).out);
  EXPECT_EQ(CallAtoll({"help", "help"}).code, kDone);

  Outcome wrong = CallAtoll({"help", "run", "shwo"});
  EXPECT_EQ(wrong.code, kWrongCall);
  EXPECT_EQ(wrong.err, "atoll run: unknown verb 'shwo'; did you mean 'show'?\n");
  EXPECT_EQ(wrong.out, "");
  wrong = CallAtoll({"man", "local", "show"});
  EXPECT_EQ(wrong.code, kWrongCall);
  EXPECT_EQ(wrong.err, "atoll local: 'show' is one word too many\n");
}

TEST(CommandLineTest, WritesWhatShellsAndManRead) {
  // Broken: what is installed beside the programs would be empty, or of another verb.
  EXPECT_THAT(CallAtoll({"man"}).out, HasSubstr(".TH ATOLL 1 "));
  EXPECT_THAT(CallAtoll({"man", "run", "show"}).out, HasSubstr(".TH ATOLL\\-RUN\\-SHOW 1 "));
  EXPECT_THAT(CallAtoll({"completion", "bash"}).out, HasSubstr("complete -F _atoll atoll"));
  EXPECT_THAT(CallAtoll({"completion", "zsh"}).out, HasSubstr("#compdef atoll\n"));
  EXPECT_THAT(CallAtoll({"completion", "fish"}).err, HasSubstr("'fish' is not one of bash, zsh"));
}

TEST(CommandLineTest, ConfigErrorsAreCode2) {
  // Broken: a wrong config would look like a failed run.
  Outcome outcome = CallAtoll({"config", "validate", "/none/such.toml"});
  EXPECT_EQ(outcome.code, kWrongCall);
  EXPECT_EQ(outcome.err, "/none/such.toml: there is no such file\n");
  outcome = CallAtoll({"config", "validate", "/none/such.toml", "--json"});
  EXPECT_EQ(outcome.code, kWrongCall);
  EXPECT_THAT(outcome.out, HasSubstr("\"valid\": false"));
  outcome = CallAtoll({"local", "--config", "/none/such.toml"});
  EXPECT_EQ(outcome.code, kWrongCall);
  EXPECT_EQ(outcome.err, "/none/such.toml: there is no such file\n");
}

TEST(CommandLineTest, FoldersThatHoldNothingAreNamed) {
  // Broken: a mistyped --dir would be an empty answer instead of an error.
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"log", "verify", "--dir", "/none/such"},
                                             {"log", "list", "--dir", "/none/such"},
                                             {"run", "show", "--dir", "/none/such"}}) {
    const Outcome outcome = CallAtoll(words);
    EXPECT_EQ(outcome.code, kWrongCall);
    EXPECT_THAT(outcome.err, HasSubstr("/none/such"));
  }
}

TEST(CommandLineTest, BenchWritesItsNumbers) {
  // Broken: the figures that docs and checks rely on would not be written.
  const Outcome outcome = CallAtoll(
      {"bench", "codec", "--codec", "int8", "--elements", "4096", "--repeats", "1", "--json", "-"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  for (const char* key : {"codec", "elements", "encode_gb_per_s", "decode_gb_per_s",
                          "memcpy_gb_per_s", "bytes", "relative_error"}) {
    EXPECT_THAT(outcome.out, HasSubstr(key));
  }
  EXPECT_EQ(CallAtoll({"bench", "codec", "--codec", "int9"}).code, kWrongCall);
}

TEST(ExitCodeTest, OneKindOfErrorHasOneCode) {
  // Broken: a script could not tell a call that it must mend from a failure that it may try again.
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), kDone);
  for (const absl::Status& wrong :
       {absl::InvalidArgumentError("x"), absl::NotFoundError("x"), absl::AlreadyExistsError("x"),
        absl::FailedPreconditionError("x"), absl::OutOfRangeError("x")}) {
    EXPECT_EQ(ExitCodeOf(wrong), kWrongCall) << wrong;
  }
  for (const absl::Status& failed :
       {absl::UnavailableError("x"), absl::DataLossError("x"), absl::ResourceExhaustedError("x"),
        absl::DeadlineExceededError("x"), absl::PermissionDeniedError("x"),
        absl::UnknownError("x")}) {
    EXPECT_EQ(ExitCodeOf(failed), kFailed) << failed;
  }
}

TEST(ExitCodeTest, AProgramThatIsNotThereIsAWrongCallOfEveryVerb) {
  // Broken: the same mistake would have another code from verb to verb.
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{
           {"eval", "--dir", "/none/such"},
           {"generate", "--dir", "/none/such", "--prompt", "a"},
           {"export", "--dir", "/none/such", "--output", "/none"},
           {"import", "--input", "/none/such", "--output", "/none"},
           {"data", "inspect", "/none/such"},
           {"data", "prepare", "--input", "/n", "--output", "/n"}}) {
    words.insert(words.end(), {"--worker", "/none/such/worker"});
    const Outcome outcome = CallAtoll(words);
    EXPECT_EQ(outcome.code, kWrongCall) << words[0];
    EXPECT_THAT(outcome.err, HasSubstr("/none/such/worker is missing"));
  }
}

}  // namespace
}  // namespace atolld
