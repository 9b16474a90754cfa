// Writes a TorchScript file for worker_test.py: a classifier of 36 values into 4 classes whose
// forward(images, labels) is the cross entropy. With Debian's libtorch alone, without
// python3-torch.
#include <torch/script.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: torchscript_file FILE.pt\n", stderr);
    return 2;
  }
  at::manual_seed(5);
  torch::jit::Module module("Classifier");
  const auto add = [&](const char* name, const at::Tensor& value) {
    module.register_parameter(name, value.set_requires_grad(true), /*is_buffer=*/false);
  };
  add("hidden", at::randn({36, 16}) * 0.1);
  add("hidden_bias", at::zeros({16}));
  add("output", at::randn({16, 4}) * 0.1);
  module.define(R"(
def forward(self, images, labels):
    hidden = torch.relu(torch.matmul(images.flatten(1), self.hidden) + self.hidden_bias)
    logits = torch.log_softmax(torch.matmul(hidden, self.output), 1)
    return -torch.mean(torch.gather(logits, 1, labels.unsqueeze(1)))
)");
  module.save(argv[1]);
  return 0;
}
