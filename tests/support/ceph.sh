# One monitor, one OSD on a sparse file and one S3 gateway, all on loopback, in the current folder.
# Wants MON_V2, MON_V1, RGW (ports), ACCESS_KEY and SECRET_KEY. Ends when it is killed, with all that it started.
set -euo pipefail
here=$PWD
fsid=$(cat /proc/sys/kernel/random/uuid)
osd=$(cat /proc/sys/kernel/random/uuid)
export CEPH_CONF=$here/ceph.conf
cat > ceph.conf <<CONF
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$MON_V2,v1:127.0.0.1:$MON_V1]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = $here/\$name.keyring
run dir = $here
admin socket = $here/\$name.asok
pid file = $here/\$name.pid
log file = $here/\$name.log
crash dir = $here
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail warn = 1
mon data avail crit = 1
mon data = $here/mon
osd data = $here/osd
osd objectstore = bluestore
bluestore block create = true
bluestore block size = 10737418240
osd memory target = 939524096
ms bind msgr2 = true
rgw frontends = beast endpoint=127.0.0.1:$RGW
rgw enable usage log = false
CONF
mkdir mon osd
ceph-authtool --create-keyring mon.keyring --gen-key -n mon. --cap mon 'allow *'
ceph-authtool --create-keyring client.admin.keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
ceph-authtool mon.keyring --import-keyring client.admin.keyring
monmaptool --create --addv a "[v2:127.0.0.1:$MON_V2,v1:127.0.0.1:$MON_V1]" --fsid "$fsid" monmap
ceph-mon --mkfs -i a --monmap monmap --keyring mon.keyring
ceph-mon -i a -f &
ceph-authtool --create-keyring osd.0.keyring --gen-key -n osd.0
secret=$(ceph-authtool -p -n osd.0 osd.0.keyring)
echo "{\"cephx_secret\": \"$secret\"}" | ceph --connect-timeout 60 osd new "$osd" -i -
ceph-osd -i 0 --mkfs --osd-uuid "$osd"
ceph-osd -i 0 -f &
ceph auth get-or-create client.rgw.a mon 'allow rw' osd 'allow rwx' -o client.rgw.a.keyring
radosgw-admin user create --uid=test --display-name=test --access-key="$ACCESS_KEY" --secret-key="$SECRET_KEY"
radosgw -n client.rgw.a -f &
wait
