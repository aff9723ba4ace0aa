"""Learn a metric for clustering in closed form, and stream it.

Each category consists of two clouds that lie far apart. k-means cannot know that they belong
together; a metric learnt from one labelled dataset tells it. See how the learnt projection brings
the halves of every category together, although the data came in ten chunks that were never in
memory at once.
"""

from gmlearn_mlca import MLCA, delta_loss, rand_loss
from gmlearn_mlca.assign import kmeans_labels
from gmlearn_mlca.synthetic import two_layer_categories

import gmlearn as gm

model = MLCA(random_state=0)
for chunk in range(10):
    X, y = two_layer_categories((100, 200, 400), rng=chunk)
    model.partial_fit(X, y, classes=[0, 1, 2])

X_test, y_test = two_layer_categories((300, 300, 300), rng=99)
plain, learnt = kmeans_labels(X_test, 3, 10, 0), model.predict(X_test)
for name, labels in (("Euclidean", plain), ("learnt", learnt)):
    print(
        f"{name:>10} metric: Delta {delta_loss(labels, y_test):.2f}, Rand loss "
        f"{rand_loss(labels, y_test):.3f}"
    )

with gm.plot.styled() as plt:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    colours = [gm.plot.PALETTE[c] for c in y_test]
    left.scatter(X_test[:, 0], X_test[:, 2], c=colours, s=6)
    left.set(title="as given", xlabel="first coordinate", ylabel="third coordinate")
    Z = model.transform(X_test)
    right.scatter(Z[:, 0], Z[:, 1], c=colours, s=6)
    right.set(
        title="in the learnt space",
        xlabel="first component",
        ylabel="second component",
        xticks=[],
        yticks=[],
    )
figure.savefig("plot_mlca.png", dpi=110)
