#!/bin/bash
set -e
cd /app
echo onion >> report.txt
echo tea > temp.txt
