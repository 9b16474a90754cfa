#include "worker/data/unpacked_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/prepare.h"
#include "worker/data/token_source.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

class UnpackedTextTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  absl::StatusOr<std::string> Read(const std::string& path) {
    TokenSource::Options options;
    options.validation_fraction = 0;
    const auto source = TokenSource::Open(path, options);
    if (!source.ok()) return source.status();
    std::string text;
    for (const auto part : (*source)->train().parts()) text.append(part.begin(), part.end());
    return text;
  }

  std::string Wrong(const std::string& name, const std::string& bytes) {
    Write(name, bytes);
    const auto text = Read(folder_ / name);
    EXPECT_TRUE(absl::IsInvalidArgument(text.status())) << text.status();
    return std::string(text.status().message());
  }

  const TemporaryFolder folder_;
};

// Broken: a corpus as it is offered for download would have to be unpacked by hand, or would be cut
// off where one piece of the work ends.
TEST_F(UnpackedTextTest, IsReadAsWhatItHolds) {
  const std::string text = SomeText(3000000), more = SomeText(1000);
  Write("a.txt.gz", Gzip(text));
  EXPECT_EQ(Read(folder_ / "a.txt.gz").value_or("none"), text);
  Write("a.txt.zst", Zstd(text));
  EXPECT_EQ(Read(folder_ / "a.txt.zst").value_or("none"), text);
  // Several members and frames, as parallel compressors write them.
  Write("a.txt.gz", Gzip(text) + Gzip(more) + Gzip(""));
  EXPECT_EQ(Read(folder_ / "a.txt.gz").value_or("none"), text + more);
  Write("a.txt.zst", Zstd(text) + Zstd("") + Zstd(more));
  EXPECT_EQ(Read(folder_ / "a.txt.zst").value_or("none"), text + more);
}

// Broken: lines of JSON would be trained on with their punctuation, since the name ends otherwise;
// or files of a folder would be mixed up.
TEST_F(UnpackedTextTest, TheNameBeneathSaysTheForm) {
  Write("a.jsonl.gz", Gzip("{\"text\": \"one\"}\n{\"text\": \"two\"}\n"));
  Write("b.txt", "three");
  Write("c.json.zst", Zstd("[{\"text\": \"four\"}]"));
  EXPECT_EQ(Read(folder_.path()).value_or("none"), "one\ntwo\nthree\nfour");
  EXPECT_THAT(Wrong("d.jsonl.gz", Gzip("{\"text\": \"x\"}\n{}\n")),
              HasSubstr("d.jsonl.gz: line 2 has no \"text\""));
  EXPECT_THAT(Wrong("e.csv.gz", Gzip("id,text\n")), HasSubstr("is a table, not prose"));
}

// Broken: half a download would be trained on as if it were all.
TEST_F(UnpackedTextTest, WhatIsDamagedIsNamed) {
  const std::string gzip = Gzip(SomeText(100000)), zstd = Zstd(SomeText(100000));
  EXPECT_THAT(Wrong("a.gz", gzip.substr(0, gzip.size() / 2)),
              HasSubstr("a.gz is damaged: it ends inside its compressed text"));
  EXPECT_THAT(Wrong("b.zst", zstd.substr(0, zstd.size() / 2)),
              HasSubstr("b.zst is damaged: it ends inside its compressed text"));
  EXPECT_THAT(Wrong("c.gz", gzip + "rubbish"), HasSubstr("c.gz is damaged: "));
  EXPECT_THAT(Wrong("d.zst", zstd + "rubbish"), HasSubstr("d.zst is damaged: "));
  EXPECT_THAT(Wrong("e.gz", Gzip(gzip)), HasSubstr("is compressed twice"));
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  EXPECT_THAT(Wrong("f.tar.gz", Gzip(tar)), HasSubstr("is a tar archive"));
  // What was unpacked before an error leaves nothing behind.
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string().find("unpacked"), std::string::npos);
  }
}

// Broken: a prepared folder would be another one, depending on how its text was stored.
TEST_F(UnpackedTextTest, PreparesTheSameTokens) {
  const std::string text = SomeText(50000);
  Write("a.txt", text);
  Write("b.txt.zst", Zstd(text));
  std::string digests[2];
  int i = 0;
  for (const char* name : {"a.txt", "b.txt.zst"}) {
    PrepareOptions options;
    options.input = folder_ / name;
    options.output = folder_ / ("out" + std::to_string(i));
    const auto prepared = PrepareData(options);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ(prepared->info.source_bytes, text.size());
    digests[i++] = prepared->info.content_digest;
  }
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace atolld
