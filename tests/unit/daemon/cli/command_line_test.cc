#include "daemon/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/cli/verbs/verbs.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

Outcome Call(std::vector<std::string> words) {
  CommandLine command_line;
  for (const char* group : {"run", "peer", "log", "config", "bench"}) {
    command_line.DescribeGroup(group, group);
  }
  AddLocalVerb(command_line);
  AddRunVerbs(command_line);
  AddPeerVerbs(command_line);
  AddLogVerbs(command_line);
  AddEvalVerb(command_line);
  AddGenerateVerb(command_line);
  AddExportVerb(command_line);
  AddImportVerb(command_line);
  AddConfigVerbs(command_line);
  AddBenchVerbs(command_line);
  words.insert(words.begin(), "atoll");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = command_line.Run(static_cast<int>(argv.size()), argv.data());
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(CommandLineTest, WrongCallsAreOneLineAndCode2) {
  // Broken: somebody who mistypes would get a page of help, or a script would take a wrong call for
  // a failed run.
  const std::vector<std::pair<std::vector<std::string>, std::string>> calls = {
      {{"locla"}, "atoll: unknown verb 'locla'; did you mean 'local'?\n"},
      {{"run", "shwo"}, "atoll run: unknown verb 'shwo'; did you mean 'show'?\n"},
      {{"run"}, "atoll run: a verb is needed: show, watch, pause, resume, stop\n"},
      {{"peer", "evcit", "a"}, "atoll peer: unknown verb 'evcit'; did you mean 'evict'?\n"},
      {{"peer", "drain"}, "atoll peer drain: PEER is required\n"},
      {{"run", "show", "--jsn"},
       "atoll run show: unknown option '--jsn'; did you mean '--json'?\n"},
      {{"local", "--confg=x.toml"},
       "atoll local: unknown option '--confg'; did you mean '--config'?\n"},
      {{"local"}, "atoll local: --config is required\n"},
      {{"config", "validate", "a.toml", "b.toml"},
       "atoll config validate: 'b.toml' is one argument too many\n"},
  };
  for (const auto& [words, message] : calls) {
    const Outcome outcome = Call(words);
    EXPECT_EQ(outcome.code, kWrongCall);
    EXPECT_EQ(outcome.err, message);
    EXPECT_EQ(outcome.out, "");
  }
  // Values of the wrong kind, in the parser's own words.
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"local", "--config", "x", "--peers", "three"},
           {"local", "--config", "x", "--port", "99999"},
           {"local", "--config"},
           {"run", "show", "--coordinator", "a:1", "--dir", "b"}}) {
    const Outcome outcome = Call(words);
    EXPECT_EQ(outcome.code, kWrongCall);
    EXPECT_THAT(outcome.err, HasSubstr("--"));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(CommandLineTest, EveryVerbHasHelpWithAnExample) {
  // Broken: the surest way to learn a verb, its example, would be missing.
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"local"},
                                             {"run", "show"},
                                             {"run", "watch"},
                                             {"run", "pause"},
                                             {"run", "resume"},
                                             {"run", "stop"},
                                             {"peer", "list"},
                                             {"peer", "show"},
                                             {"peer", "drain"},
                                             {"peer", "evict"},
                                             {"log", "list"},
                                             {"log", "verify"},
                                             {"eval"},
                                             {"generate"},
                                             {"config", "validate"},
                                             {"bench", "codec"}}) {
    std::vector<std::string> words = verb;
    words.emplace_back("--help");
    const Outcome outcome = Call(words);
    EXPECT_EQ(outcome.code, kDone);
    EXPECT_THAT(outcome.out, HasSubstr("Example:"));
    EXPECT_THAT(outcome.out, HasSubstr("--json"));
  }
}

TEST(CommandLineTest, ConfigErrorsAreCode2) {
  // Broken: a wrong config would look like a failed run.
  Outcome outcome = Call({"config", "validate", "/none/such.toml"});
  EXPECT_EQ(outcome.code, kWrongCall);
  EXPECT_EQ(outcome.err, "/none/such.toml: there is no such file\n");
  outcome = Call({"config", "validate", "/none/such.toml", "--json"});
  EXPECT_EQ(outcome.code, kWrongCall);
  EXPECT_THAT(outcome.out, HasSubstr("\"valid\": false"));
  outcome = Call({"local", "--config", "/none/such.toml"});
  EXPECT_EQ(outcome.code, kWrongCall);
  EXPECT_EQ(outcome.err, "/none/such.toml: there is no such file\n");
}

TEST(CommandLineTest, FoldersThatHoldNothingAreNamed) {
  // Broken: a mistyped --dir would be an empty answer instead of an error.
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"log", "verify", "--dir", "/none/such"},
                                             {"log", "list", "--dir", "/none/such"},
                                             {"run", "show", "--dir", "/none/such"}}) {
    const Outcome outcome = Call(words);
    EXPECT_EQ(outcome.code, kWrongCall);
    EXPECT_THAT(outcome.err, HasSubstr("/none/such"));
  }
}

TEST(CommandLineTest, BenchWritesItsNumbers) {
  // Broken: the figures that docs and checks rely on would not be written.
  const Outcome outcome = Call(
      {"bench", "codec", "--codec", "int8", "--elements", "4096", "--repeats", "1", "--json", "-"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  for (const char* key : {"codec", "elements", "encode_gb_per_s", "decode_gb_per_s",
                          "memcpy_gb_per_s", "bytes", "relative_error"}) {
    EXPECT_THAT(outcome.out, HasSubstr(key));
  }
  EXPECT_EQ(Call({"bench", "codec", "--codec", "int9"}).code, kWrongCall);
}

TEST(ExitCodeTest, OneKindOfErrorHasOneCode) {
  // Broken: a script could not tell a call that it must mend from a failure that it may try again.
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), kDone);
  for (const absl::Status& wrong :
       {absl::InvalidArgumentError("x"), absl::NotFoundError("x"), absl::AlreadyExistsError("x")}) {
    EXPECT_EQ(ExitCodeOf(wrong), kWrongCall) << wrong;
  }
  for (const absl::Status& failed :
       {absl::UnavailableError("x"), absl::DataLossError("x"), absl::FailedPreconditionError("x"),
        absl::PermissionDeniedError("x"), absl::UnknownError("x")}) {
    EXPECT_EQ(ExitCodeOf(failed), kFailed) << failed;
  }
}

}  // namespace
}  // namespace atolld
