#include "worker/data/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "compression/base/utf8.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/recurrence.h"
#include "worker/data/text_files.h"
#include "worker/data/tokenizer.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Text(const TokenSpan& split) {
  std::string text;
  for (const absl::Span<const uint8_t> part : split.parts()) text.append(part.begin(), part.end());
  return text;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

absl::StatusOr<std::unique_ptr<TokenSource>> Open(const std::string& path, double fraction) {
  TokenSource::Options options;
  options.validation_fraction = fraction;
  return TokenSource::Open(path, options);
}

// Broken: peers would train and validate on different parts of the same file.
TEST(TokenSourceTest, SplitsAFileAndHashesIt) {
  const TemporaryFolder folder;
  Write(folder / "a.txt", "0123456789");
  const auto corpus = Open(folder / "a.txt", 0.2);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(Text((*corpus)->train()), "01234567");
  EXPECT_EQ(Text((*corpus)->validation()), "89");
  EXPECT_EQ(absl::BytesToHexString((*corpus)->digest()),
            "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
}

// Broken: the order in which a file system lists a folder would change the corpus and its digest.
TEST(TokenSourceTest, AFolderIsItsFilesInOrderOfPath) {
  const TemporaryFolder folder;
  Write(folder / "b/c.txt", "third");
  Write(folder / "b.txt", "second");
  Write(folder / "a.txt", "first");
  const auto corpus = Open(folder.path(), 0);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(Text((*corpus)->train()), "first\nthird\nsecond");
  const auto same = TokenSource::FromText("first\nthird\nsecond", 0);
  EXPECT_EQ((*corpus)->digest(), (*same)->digest());
}

// Broken: a run would train on a byte order mark, on CR LF or on zeros, and nobody would know.
TEST(TokenSourceTest, SaysWhatIsOddInData) {
  const TemporaryFolder folder;
  const auto notes = [&](const std::string& name, const std::string& text) {
    Write(folder / name, text);
    const auto source = Open(folder / name, 0);
    EXPECT_TRUE(source.ok()) << source.status();
    std::string all;
    for (const std::string& note : (*source)->notes()) all += note + "\n";
    return all;
  };
  EXPECT_EQ(notes("plain.txt", "two lines\nof text\n"), "");
  EXPECT_THAT(notes("mark.txt", "\xef\xbb\xbftext"),
              HasSubstr("mark.txt begins with a byte order mark, which is trained on"));
  EXPECT_THAT(notes("dos.txt", "two\r\nlines\r\n"),
              HasSubstr("dos.txt has lines that end in CR LF"));
  EXPECT_EQ(notes("zero.bin", std::string(9000, '\0')),
            "every training token is 0: is this the data?\n");
  EXPECT_EQ(notes("late.bin", std::string(9000, '\0') + std::string("\1\0", 2)), "");
  EXPECT_THAT(notes("empty.jsonl", "{\"text\": \"\"}\n{\"text\": \"a\"}\n"),
              Not(HasSubstr("every")));
  Write(folder / "none.jsonl", "{\"text\": \"\"}\n{\"text\": \"\"}\n");
  EXPECT_THAT(Message(Open(folder / "none.jsonl", 0).status()), HasSubstr("holds no text"));
}

// Broken: a volunteer would not learn what is wrong with the data.
TEST(TokenSourceTest, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  const auto missing = Open(folder / "none", 0.1);
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("none: No such file"));

  Write(folder / "empty.txt", "");
  const auto empty = Open(folder / "empty.txt", 0.1);
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("empty.txt is empty"));

  Write(folder / "latin1/x.txt", "caf\xe9 noir");
  for (const std::string& path : {folder / "latin1/x.txt", folder / "latin1"}) {
    const auto bad = Open(path, 0.1);
    EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("x.txt is not UTF-8 at byte 3"));
  }

  std::filesystem::create_directory(folder / "hollow");
  EXPECT_THAT(std::string(Open(folder / "hollow", 0.1).status().message()),
              HasSubstr("holds no files"));
}

// Broken: text that is no text would be trained on, or good text refused.
TEST(TokenSourceTest, Utf8IsCheckedStrictly) {
  EXPECT_EQ(FindInvalidUtf8("plain ascii, longer than a word"), 31u);
  EXPECT_EQ(FindInvalidUtf8("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8f\x9d"), 11u);
  EXPECT_EQ(FindInvalidUtf8("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"), 10u);
  EXPECT_EQ(FindInvalidUtf8("ab\xc0\x80"), 2u);        // overlong
  EXPECT_EQ(FindInvalidUtf8("ab\xe0\x9f\xbf"), 2u);    // overlong
  EXPECT_EQ(FindInvalidUtf8("\xed\xa0\x80"), 0u);      // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xf4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("12345678\x80"), 8u);      // continuation without a lead
  EXPECT_EQ(FindInvalidUtf8("1234567\xe2\x82"), 7u);   // cut short
}

// Broken: a corpus of lines of JSON would be trained on with its punctuation, or without the
// boundaries of its documents.
TEST(TokenSourceTest, LinesOfJsonAreTheirField) {
  const TemporaryFolder folder;
  Write(folder / "a.jsonl", "{\"text\": \"one\", \"id\": 1}\n\n{\"text\": \"caf\\u00e9\"}\n");
  const auto source = Open(folder / "a.jsonl", 0);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Text((*source)->train()), "one\ncaf\xc3\xa9");

  const auto refuse = [&](const std::string& text, const std::string& why) {
    Write(folder / "b.jsonl", text);
    const auto bad = Open(folder / "b.jsonl", 0);
    EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("b.jsonl: line " + why));
  };
  refuse("{\"text\": \"x\"}\n{\"text\": \n", "2 is not JSON at its byte 10: it ends too early");
  refuse("{\"text\": \"x\"}\n7", "2 is a number, not a JSON object");
  refuse("[1]", "1 is a number, not a JSON object");
  refuse("{\"text\": \"x\"}\n{\"body\": \"y\"}",
         "2 has no \"text\"; it has \"body\"; name the key");
  refuse("{\"text\": 7}", "1 has a number under \"text\", not a text");
  refuse("\n\n{\"text\": null}", "3 has null under \"text\"");
  refuse("{\"text\": \"cut \\ud83d\"}", "1 is not JSON at its byte 21: half of a surrogate pair");
  refuse("{\"text\": \"caf\xe9\"}", "1 is not UTF-8 at its byte 14");
  refuse("{\"text\": nan}", "1 is not JSON at its byte");
}

// Broken: what Python writes for a number that is none would cost a run its corpus.
TEST(TokenSourceTest, NumbersOfPythonDoNoHarmBesideTheText) {
  const TemporaryFolder folder;
  Write(
      folder / "a.jsonl",
      "{\"text\": \"one NaN\", \"x\": NaN}\n{\"x\": [-Infinity, Infinity], \"text\": \"\\\"NaN\"}");
  const auto source = Open(folder / "a.jsonl", 0);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Text((*source)->train()), "one NaN\n\"NaN");
}

// Broken: a mark, an empty line or a carriage return would be taken for a record.
TEST(TokenSourceTest, LinesOfOtherSystemsAreRead) {
  const TemporaryFolder folder;
  Write(folder / "a.jsonl", "\xef\xbb\xbf\r\n{\"text\": \"one\"}\r\n\r\n{\"text\": \"two\"}\r\n");
  Write(folder / "b.jsonl", "\xef\xbb\xbf{\"text\": \"three\"}");
  const auto source = Open(folder.path(), 0);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Text((*source)->train()), "one\ntwo\nthree");
}

// Broken: text inside an object or a list of a record could not be reached.
TEST(TokenSourceTest, AFieldMayBeNested) {
  const TemporaryFolder folder;
  Write(folder / "a.jsonl",
        "{\"content\": {\"text\": \"one\"}, \"m\": [{\"c\": \"two\"}], \"a.b\": \"three\"}");
  TokenSource::Options options;
  options.validation_fraction = 0;
  const auto read = [&](const std::string& field) {
    options.field = field;
    const auto source = TokenSource::Open(folder / "a.jsonl", options);
    return source.ok() ? Text((*source)->train()) : Message(source.status());
  };
  EXPECT_EQ(read("content.text"), "one");
  EXPECT_EQ(read("m.0.c"), "two");
  EXPECT_EQ(read("a.b"), "three");
  EXPECT_THAT(read("m"), HasSubstr("has a list under \"m\", not a text; name the key"));
  EXPECT_THAT(read("m.1.c"), HasSubstr("has no \"m.1.c\"; it has \"a.b\", \"content\", \"m\""));
}

// Broken: a few bad lines would stop a run, or be left out without a count.
TEST(TokenSourceTest, BadLinesAreSkippedAndCounted) {
  const TemporaryFolder folder;
  Write(folder / "a.jsonl", "{\"text\": \"one\"}\n{}\nx\n{\"text\": 1}\n[]\n{\"text\": \"two\"}\n");
  TokenSource::Options options;
  options.validation_fraction = 0;
  EXPECT_THAT(Message(TokenSource::Open(folder.path(), options).status()),
              HasSubstr("on_bad_line or --on-bad-line can skip such lines"));
  options.skip_bad_lines = true;
  const auto source = TokenSource::Open(folder.path(), options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Text((*source)->train()), "one\ntwo");
  const std::string note = (*source)->notes().back();
  EXPECT_THAT(note, HasSubstr("4 bad lines were skipped: "));
  EXPECT_THAT(note, HasSubstr("a.jsonl: line 2 has no \"text\"; it has no key at all"));
  EXPECT_THAT(note, HasSubstr("line 4 has a number"));
  EXPECT_THAT(note, Not(HasSubstr("line 5")));
  Write(folder / "a.jsonl", "{}\n");
  EXPECT_THAT(Message(TokenSource::Open(folder.path(), options).status()),
              HasSubstr("holds no text: 1 bad line was skipped"));
}

// Broken: the brackets, keys and commas of a list of records would be trained on as prose.
TEST(TokenSourceTest, AJsonArrayIsItsRecords) {
  const TemporaryFolder folder;
  Write(folder / "a.json",
        "[\n {\"text\": \"one, [two]\"},\n {\"id\": [1, {\"x\": 2}],\n \"text\": \"\\\"}\"}, "
        "\"bare\"\n]\n");
  const auto source = Open(folder / "a.json", 0);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Text((*source)->train()), "one, [two]\n\"}\nbare");
  const auto refuse = [&](const std::string& name, const std::string& text,
                          const std::string& why) {
    Write(folder / name, text);
    EXPECT_THAT(Message(Open(folder / name, 0).status()), HasSubstr(name + why));
  };
  refuse("b.json", "[\n{\"text\": \"x\"},\n{\"body\": 1}]", ": line 3 has no \"text\"");
  refuse("c.json",
         "[{\"text\": \"x\"},\n{\"text\": ", " ends inside its array, in the element of line 2");
  refuse("d.json", "[] x", " continues after its array at byte 2");
  refuse("e.json", "{\n\"data\": []\n}",
         " is JSON, but neither a list of records nor a record a line");
  // Records a line are read, whatever the name.
  Write(folder / "f.json", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  EXPECT_EQ(Text((*Open(folder / "f.json", 0))->train()), "one\ntwo");
}

// Broken: a large array's records would depend on how it is cut for the threads.
TEST(TokenSourceTest, AnArrayIsCutBetweenItsRecords) {
  const TemporaryFolder folder;
  std::string json = "[ ";
  std::string expected;
  for (int i = 0; i < 500; ++i) {
    json += (i == 0 ? "" : " ,\n") + ("{\"text\": \"r, " + std::to_string(i)) + "]\"}";
    expected += (i == 0 ? "" : "\n") + ("r, " + std::to_string(i)) + "]";
  }
  Write(folder / "a.json", json + "\n]");
  const auto text = OpenTextFiles(folder / "a.json", {});
  ASSERT_TRUE(text.ok()) << text.status();
  const auto tokenizer = MakeByteTokenizer();
  const auto pieces = CutText(text->files, *tokenizer, 100);
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  EXPECT_GT(pieces->size(), 50u);
  const auto encoder = tokenizer->NewEncoder();
  std::vector<uint32_t> tokens;
  BadLines bad;
  for (const TextPiece& piece : *pieces) {
    const absl::Status status =
        EncodePiece(text->files, piece, {}, *tokenizer, *encoder, &bad, &tokens);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(std::string(tokens.begin(), tokens.end()), expected);
}

// Broken: tables, compressed files and other programs' formats would be trained on as prose, or be
// refused without a word of what they are.
TEST(TokenSourceTest, WhatIsNoProseIsNamed) {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& name, const std::string& bytes,
                          const std::string& what) {
    Write(folder / name, bytes);
    const absl::Status status = Open(folder / name, 0).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(Message(status), HasSubstr(name + " " + what));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  };
  refuse("a.parquet", "PAR1 and more", "is a Parquet table; make lines of JSON of it");
  refuse("b.txt", std::string("\x1f\x8b\x08", 3), "is damaged: it ends inside its compressed text");
  refuse("c.txt", "\x28\xb5\x2f\xfd...", "is damaged: ");
  refuse("d.txt", "PK\x03\x04...", "is a zip archive");
  refuse("e.txt",
         std::string("\xff\xfe"
                     "a\0b\0",
                     6),
         "is UTF-16");
  refuse("f.txt", std::string("text\0text", 9), "has a zero byte at byte 4");
  refuse("g.csv", "id,text\n1,x\n", "is a table, not prose");
  refuse("h.txt", "{\"text\": \"one\"}\n", "looks like records of JSON");
  refuse("i.txt", "[\n {\"text\": \"one\"}]", "looks like records of JSON");
  refuse("j.ipynb", "{\n \"cells\": []}", "looks like records of JSON");
  // Who wants them as they are says so.
  TokenSource::Options options;
  options.kind = "plain";
  options.validation_fraction = 0;
  const auto plain = TokenSource::Open(folder / "h.txt", options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(Text((*plain)->train()), "{\"text\": \"one\"}\n");
  options.kind = "jsonl";
  EXPECT_EQ(Text((*TokenSource::Open(folder / "h.txt", options))->train()), "one");
  // Prose may begin with a brace or a bracket.
  Write(folder / "k.txt", "[Enter the sea.] {aside}");
  EXPECT_TRUE(Open(folder / "k.txt", 0).ok());
}

// Broken: version control and editors' leavings would be trained on, a linked folder be left out,
// or a folder that holds itself never be read to its end.
TEST(TokenSourceTest, AFoldersHiddenFilesAreLeftOutAndItsLinksFollowed) {
  const TemporaryFolder folder, elsewhere;
  Write(folder / "text/a.txt", "one");
  Write(folder / "text/.git/config", "secret");
  Write(folder / "text/.a.txt.swp", "secret");
  Write(elsewhere / "b.txt", "two");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder / "text/linked");
  std::filesystem::create_directory_symlink(folder / "text", folder / "text/loop");
  const auto source = Open(folder / "text", 0);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Text((*source)->train()), "one\ntwo");
  EXPECT_THAT((*source)->notes(), testing::Contains(HasSubstr("2 hidden files and folders in")));
  EXPECT_THAT((*source)->notes(), testing::Contains(HasSubstr("1 link back to a folder")));

  std::filesystem::create_symlink(folder / "gone.txt", folder / "text/c.txt");
  EXPECT_THAT(Message(Open(folder / "text", 0).status()),
              HasSubstr("text/c.txt is a link that leads nowhere"));
  std::filesystem::remove(folder / "text/c.txt");
  std::filesystem::permissions(folder / "text/a.txt", std::filesystem::perms::none);
  if (::geteuid() != 0) {  // root may read all
    EXPECT_THAT(Message(Open(folder / "text", 0).status()),
                HasSubstr("text/a.txt: this file cannot be read: Permission denied"));
  }
}

// Broken: a folder of more files than a process may map (vm.max_map_count, 65,530) could not be
// read.
TEST(TokenSourceTest, FilesAreNotAllMappedAtOnce) {
  const TemporaryFolder folder;
  constexpr int kFiles = 300;
  std::string expected;
  for (int i = 0; i < kFiles; ++i) {
    Write(folder / ("f" + std::to_string(1000 + i) + ".txt"), std::to_string(i));
    expected += (i == 0 ? "" : "\n") + std::to_string(i);
  }
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  const auto before = mappings();
  const auto text = OpenTextFiles(folder.path(), {});
  ASSERT_TRUE(text.ok() && text->files.size() == kFiles) << text.status();
  const auto source = Open(folder.path(), 0);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_LT(mappings(), before + kFiles / 2);
  EXPECT_EQ(Text((*source)->train()), expected);
}

// Broken: ids of characters would not be nanoGPT's, or need more characters than a model has.
TEST(TokenSourceTest, CharactersAreNumberedInTheirOrder) {
  const TemporaryFolder folder;
  Write(folder / "a.txt",
        "b\xc3\xa9"
        "a\nb");
  TokenSource::Options options;
  options.tokenizer = "chars";
  options.validation_fraction = 0;
  const auto source = TokenSource::Open(folder / "a.txt", options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->tokenizer()->vocabulary(), 4u);
  EXPECT_EQ(Text((*source)->train()), std::string("\2\3\1\0\2", 5));
  options.vocabulary = 3;
  EXPECT_THAT(std::string(TokenSource::Open(folder / "a.txt", options).status().message()),
              HasSubstr("a.txt has a vocabulary of 4 tokens; the model's has 3"));
}

// Broken: a loss on text that was trained on would be taken for one on new text.
TEST(TokenSourceTest, ValidationTextThatIsTrainedOnIsCounted) {
  const TemporaryFolder folder;
  const std::string text = SomeText(9000);
  const auto notes = [&](const std::string& whole, double fraction) {
    Write(folder / "a.txt", whole);
    const auto source = Open(folder / "a.txt", fraction);
    std::string all;
    for (const std::string& note : (*source)->notes()) all += note + "\n";
    return all;
  };
  EXPECT_THAT(notes(text, 0.2), Not(HasSubstr("validation part")));
  // The half that validates is the other half, moved: all but its first piece are found.
  EXPECT_THAT(
      notes(text + "a b" + text, 0.5),
      HasSubstr("34 of 35 pieces of 256 tokens of the validation part stand in the training "
                "part too"));
  // A piece that is one byte again and again does not count.
  const auto span = [](const std::string& bytes) {
    return TokenSpan({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 1);
  };
  const std::string train = text + std::string(256, ' '),
                    other = SomeText(18000).substr(17000, 256);
  const std::string validation = std::string(256, ' ') + other + text.substr(1000, 256) + "rest";
  RecurrenceSearch search(256);
  search.Add(span(validation), nullptr);
  search.LookIn(span(train), nullptr);
  EXPECT_EQ(search.result().looked_at, 2u);
  EXPECT_EQ(search.result().found, 1u);
  search.LookIn(span(train), nullptr);
  EXPECT_EQ(search.result().found, 1u) << "in several texts it is counted once";
  search.LookIn(span("b" + other), nullptr);
  EXPECT_EQ(search.Note("the validation part", "the training part"),
            "2 of 2 pieces of 256 tokens of the validation part stand in the training part too; "
            "the validation loss is better for it");
}

}  // namespace
}  // namespace atolld
