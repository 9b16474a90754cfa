// Would break: a token is shown to all users of a machine, or what is no token is taken for one.
#include "daemon/program/token_argument.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "daemon/env/posix_files.h"
#include "membership/trust/tokens.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TokenArgumentTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text, mode_t mode = 0600) {
    const std::string path = directory_.File("token");
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(0, chmod(path.c_str(), mode));
    return path;
  }

  // What is read, and what is said meanwhile, with this text on standard input.
  absl::StatusOr<std::string> Read(const TokenArgument& argument, const std::string& input = "") {
    FILE* const in = std::tmpfile();
    FILE* const err = std::tmpfile();
    std::fwrite(input.data(), 1, input.size(), in);
    std::rewind(in);
    absl::StatusOr<std::string> token = ReadToken(files_, argument, in, err);
    said_.assign(static_cast<size_t>(std::ftell(err)), '\0');
    std::rewind(err);
    EXPECT_EQ(said_.size(), std::fread(said_.data(), 1, said_.size(), err));
    std::fclose(in);
    std::fclose(err);
    return token;
  }
  std::string Error(const TokenArgument& argument, absl::StatusCode code,
                    const std::string& input = "") {
    const absl::Status status = Read(argument, input).status();
    EXPECT_EQ(code, status.code()) << status;
    return std::string(status.message());
  }

  const TemporaryDirectory directory_;
  PosixFiles files_;
  std::string said_;
};

TEST_F(TokenArgumentTest, AFileOrStandardInputIsReadQuietly) {
  EXPECT_EQ("atoll1-abc", *Read({"", Write("\n  atoll1-abc \r\n\n")}));
  EXPECT_THAT(said_, IsEmpty());
  for (const TokenArgument& argument : {TokenArgument{"", "-"}, TokenArgument{"-", ""}}) {
    EXPECT_EQ("atoll1-abc", *Read(argument, "atoll1-abc\n"));
    EXPECT_THAT(said_, IsEmpty());
  }
}

TEST_F(TokenArgumentTest, AnArgumentIsTakenAndWarnedOf) {
  EXPECT_EQ("atoll1-abc", *Read({" atoll1-abc", ""}));
  EXPECT_THAT(said_, HasSubstr("other users of this machine can see"));
  EXPECT_THAT(said_, HasSubstr("--token-file"));
  EXPECT_THAT(said_, ::testing::Not(HasSubstr("abc"))) << "logs keep what is said";
}

// Would break: an argument, a file of Windows' Notepad and standard input are read by three rules.
TEST_F(TokenArgumentTest, APastedTokenIsTheSameWhereverItComesFrom) {
  const std::string notepad(
      "\xff\xfe"
      "a\0t\0o\0l\0l\0"
      "1\0-\0a\0b\0c\0\r\0\n\0",
      26);
  for (const std::string& text : {std::string("\xef\xbb\xbf"
                                              "atoll1-abc\r\n"),
                                  std::string("\xc2\xa0"
                                              "atoll1-\n  abc"),
                                  std::string("\xe2\x80\x9c"
                                              "atoll1-abc\xe2\x80\x9d"),
                                  notepad}) {
    EXPECT_EQ("atoll1-abc", *Read({"", Write(text)})) << text;
    EXPECT_EQ("atoll1-abc", *Read({"", "-"}, text)) << text;
    EXPECT_EQ("atoll1-abc", *Read({text, ""})) << text;
  }
}

TEST_F(TokenArgumentTest, WhatIsNotOneTokenIsNamed) {
  using Code = absl::StatusCode;
  EXPECT_THAT(Error({}, Code::kInvalidArgument), HasSubstr("--token-file FILE"));
  const std::string gone = directory_.File("no-such");
  EXPECT_THAT(Error({"", gone}, Code::kNotFound), HasSubstr("there is no such file"));
  EXPECT_THAT(Error({"", gone + "/x"}, Code::kNotFound), HasSubstr("there is no such file"));
  EXPECT_THAT(Error({"", directory_.path()}, Code::kInvalidArgument), HasSubstr("is a folder"));
  EXPECT_THAT(Error({"", Write(" \n")}, Code::kInvalidArgument), HasSubstr("is empty"));
  EXPECT_THAT(Error({"", "-"}, Code::kInvalidArgument), HasSubstr("standard input: is empty"));
  EXPECT_THAT(Error({"", Write("atoll1-abc\natoll1-def\n")}, Code::kInvalidArgument),
              HasSubstr("the text holds 2 of them"));
  for (const mode_t mode : {0640u, 0604u, 0644u}) {
    EXPECT_THAT(Error({"", Write("atoll1-abc", mode)}, Code::kFailedPrecondition),
                HasSubstr("others may read this token"))
        << mode;
  }
  // However much there is, no more than a token's size is read.
  EXPECT_LT((*Read({"", Write(std::string(1 << 20, 'x'))})).size(), size_t{1} << 17);
}

// At a terminal the token is asked for, and whoever looks over a shoulder does not see it. One that
// a mail program has folded is read to its end; what follows it is left.
TEST_F(TokenArgumentTest, ATerminalIsAskedForATokenThatItDoesNotShow) {
  v1::JoinToken whole;
  whole.set_address("lab.example:7070");
  whole.set_authority("authority");
  whole.set_certificate("certificate");
  whole.set_key("key");
  const std::string token = FormatJoinToken(whole);
  const std::string typed_text = token.substr(0, 30) + "\n" + token.substr(30) + "\n" + "more\n";
  const int ours = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(ours, 0);
  ASSERT_EQ(0, grantpt(ours));
  ASSERT_EQ(0, unlockpt(ours));
  const int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY);
  ASSERT_GE(theirs, 0);
  FILE* const in = fdopen(theirs, "r");
  FILE* const err = std::tmpfile();
  termios before = {};
  ASSERT_EQ(0, tcgetattr(theirs, &before));
  // What is typed before the terminal hides it is dropped, so the typist waits for that.
  const pid_t typist = fork();
  if (typist == 0) {
    termios now = {};
    while (tcgetattr(theirs, &now) == 0 && (now.c_lflag & ECHO) != 0) sched_yield();
    const ssize_t wrote = write(ours, typed_text.data(), typed_text.size());
    _exit(wrote == static_cast<ssize_t>(typed_text.size()) ? 0 : 1);
  }
  EXPECT_EQ(token, *ReadToken(files_, {"", "-"}, in, err));
  int typed = -1;
  EXPECT_EQ(typist, waitpid(typist, &typed, 0));
  EXPECT_EQ(0, typed);
  termios after = {};
  ASSERT_EQ(0, tcgetattr(theirs, &after));
  EXPECT_EQ(before.c_lflag, after.c_lflag) << "the terminal stays as it was";
  std::fclose(in);
  std::fclose(err);
  close(ours);
}

}  // namespace
}  // namespace atolld
