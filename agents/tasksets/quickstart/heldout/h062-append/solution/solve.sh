#!/bin/bash
set -e
cd /app
echo bear >> memo.txt
echo cotton > value.txt
