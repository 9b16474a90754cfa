// SelectionNetwork: which rows to compare, in which order, so that the values of chosen ranks come
// to stand in the rows of those numbers.
//
// A comparator leaves the smaller of two rows' values in the lower row and the larger in the other.
// The sequence depends on the shape alone, never on values, so a whole vector of columns goes
// through it at once without a branch. It is Batcher's merge exchange (Knuth, TAOCP 3, 5.2.2,
// algorithm M) for any number of rows, less what no chosen rank depends on. Pure function, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace atolld {

struct Comparator {
  uint8_t low;  // row; low < high
  uint8_t high;
  // Whether anything later reads the row. At least one of them is true.
  bool needs_low;
  bool needs_high;
};

// Rows are 0 to rows - 1, at most 256. After the comparators row r holds the value of rank r
// (0: the smallest) for every r from first_rank to below end_rank; other rows hold anything.
std::vector<Comparator> SelectionNetwork(size_t rows, size_t first_rank, size_t end_rank);

}  // namespace atolld
