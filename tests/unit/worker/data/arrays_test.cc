#include "worker/data/arrays.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/worker/fixtures.h"
#include "tests/unit/worker/npy.h"

namespace atolld {
namespace {

class ArraysTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string ErrorOf(const std::string& name) {
    const auto arrays = Arrays::Open(name.empty() ? folder_.path() : folder_ / name, 0.2);
    return absl::StrReplaceAll(arrays.status().message(), {{folder_.path(), "DIR"}});
  }

  const TemporaryFolder folder_;
};

// Broken: the values that numpy saved would not be those that are trained on.
TEST_F(ArraysTest, ReadsWhatNumpySaves) {
  Write("images.npy", Npy<float>("<f4", "10, 2", std::vector<float>(20, 1.5f)));
  Write("labels.npy", Npy<int64_t>("<i8", "10,", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  Write("notes.txt", "not data");
  const auto arrays = Arrays::Open(folder_.path(), 0.2);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  ASSERT_EQ((*arrays)->all().size(), 2u);
  const Array &images = (*arrays)->all()[0], &labels = (*arrays)->all()[1];
  EXPECT_EQ(images.name, "images");
  EXPECT_EQ(images.shape, (std::vector<int64_t>{10, 2}));
  EXPECT_EQ(*reinterpret_cast<const float*>(images.bytes.data() + 76), 1.5f);
  EXPECT_EQ(labels.type, "<i8");
  EXPECT_EQ(labels.shape, (std::vector<int64_t>{10}));
  EXPECT_EQ(labels.bytes[72], 9);
  EXPECT_EQ((*arrays)->train_rows(), 8u);
  EXPECT_EQ((*arrays)->validation_rows(), 2u);
}

// Broken: peers with other data, or the same under other names, would be taken for equal.
TEST_F(ArraysTest, TheDigestNamesNamesShapesAndValues) {
  const auto digest = [&] { return (*Arrays::Open(folder_.path(), 0))->digest(); };
  Write("a.npy", Npy<int32_t>("<i4", "4, 2", {1, 2, 3, 4, 5, 6, 7, 8}));
  const std::string first = digest();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(digest(), first);
  Write("a.npy", Npy<int32_t>("<i4", "4, 2", {1, 2, 3, 4, 5, 6, 7, 9}));
  EXPECT_NE(digest(), first);
  Write("a.npy", Npy<int32_t>("<i4", "2, 4", {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_NE(digest(), first);
  std::filesystem::remove(folder_ / "a.npy");
  Write("b.npy", Npy<int32_t>("<i4", "4, 2", {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_NE(digest(), first);
}

// Broken: a file that cannot be trained on would be read past its end, or refused without a reason.
TEST_F(ArraysTest, SaysWhatCannotBeTrainedOn) {
  EXPECT_EQ(ErrorOf(""), "data: DIR holds no .npy file");
  EXPECT_EQ(ErrorOf("none.npy"), "data: DIR/none.npy: No such file or directory");
  const std::string good = Npy<float>("<f4", "4,", {1, 2, 3, 4});
  const struct {
    std::string bytes, message;
  } cases[] = {
      {"", "is no .npy file"},
      {"a text that is long enough to be looked at", "is no .npy file"},
      {good.substr(0, 40), "ends inside its header"},
      {good.substr(0, good.size() - 1), "has 15 bytes of values; its shape (4,) of <f4 needs 16"},
      {Npy<float>("<f2", "4,", {1, 2}),
       "is of type <f2; taken are <f4, <f8, <i4, <i8, |u1 and |b1"},
      {Npy<float>("<f4", "", {1}), "is a single value; a row a sample is needed"},
      {Npy<float>("<f4", "-4,", {1}), "has the shape (-4,)"},
      {Npy<float>("<f4", "4611686018427387904, 4,", {1}),
       "has the shape (4611686018427387904, 4,)"},
      {absl::StrReplaceAll(good, {{"False", "True "}}),
       "is stored column by column; save it in C order"},
      {absl::StrReplaceAll(good, {{"descr", "descX"}}), "has a header that is none of numpy's"},
      {Npy<float>("<f4", "0,", {}), "has no row to train on"},
  };
  for (const auto& one : cases) {
    Write("x.npy", one.bytes);
    EXPECT_EQ(ErrorOf("x.npy"), absl::StrCat("data: DIR/x.npy ", one.message));
  }
  Write("x.npy", good);
  Write("y.npy", Npy<float>("<f4", "2, 2", {1, 2, 3, 4}));
  EXPECT_EQ(ErrorOf(""), "data: DIR has 2 rows of y and 4 of x; a row is a sample");
}

}  // namespace
}  // namespace atolld
