"""Clusters that pick their own features
=====================================

Four views of the same points; each shows one quarter of the clusters and unrelated structure for
the rest. One clustering of all views finds the clusters, and says which view shows each of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from gmlearn_groupfs import GroupFeatureClustering, make_grouped_views

data = make_grouped_views(random_state=0)
model = GroupFeatureClustering(n_clusters=16, size_bounds=(16, 24), random_state=0).fit(data.views)

view = np.array(
    [np.bincount(data.view_of_cluster[data.labels[model.labels_ == c]]).argmax() for c in range(16)]
)
print(f"loss {model.loss_:.1f} from start {model.start_!r}")
print(
    f"clusters whose most used view is the right one: "
    f"{np.mean(model.kernel_usage_.argmax(axis=1) == view):.0%}"
)

ax = model.plot_kernel_usage(order=np.argsort(view, kind="stable"))
ax.set_title("Every group of clusters picks its view")
plt.show()
