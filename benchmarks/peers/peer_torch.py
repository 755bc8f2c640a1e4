"""PyTorch, eager: a linear layer and SGD, one sample at a time."""


def eager(x, y, classes):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = list(torch.tensor(x, dtype=torch.float32).split(1))
    targets, labels = list(torch.tensor(y).split(1)), y.tolist()

    def fresh():
        model = torch.nn.Linear(x.shape[1], classes)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01)

        def run():
            right = 0
            for row, target, label in zip(rows, targets, labels, strict=True):
                scores = model(row)
                right += scores.argmax().item() == label
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(scores, target).backward()
                optimiser.step()
            return right, len(labels)

        return run

    return fresh


if __name__ == "__main__":
    from common import serve

    serve({"eager": eager}, ("torch",))
